// Bytes, text and base64 where no Buffer is; ids made of random bytes.

export function fromBase64(text) {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
    return bytes;
}

export function toBase64(bytes) {
    let raw = '';
    for (let i = 0; i < bytes.length; i += 0x8000) raw += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    return btoa(raw);
}

/** The bytes of text (as UTF-8), of an ArrayBuffer or of a view. */
export function bytesOf(data) {
    if (typeof data === 'string') return new TextEncoder().encode(data);
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw new TypeError('text or bytes are needed here');
}

/** Output that came as text, or as base64 where it is not UTF-8. */
export class Output {
    #text;
    #bytes;

    constructor(text, base64) {
        if (base64 === undefined) this.#text = text ?? '';
        else this.#bytes = fromBase64(base64);
    }
    get text() {
        return (this.#text ??= new TextDecoder().decode(this.#bytes));
    }
    get bytes() {
        return (this.#bytes ??= new TextEncoder().encode(this.#text));
    }
}

/** Text `name` and bytes `bytesName`, made when they are looked at, of what came as `text`, or as `base64` where it is not UTF-8. */
export function withOutput(target, name, bytesName, text, base64) {
    const output = new Output(text, base64);
    target[name] = output.text;
    Object.defineProperty(target, bytesName, { get: () => output.bytes, enumerable: false });
    return target;
}

/** An answer whose `stdout` and `stderr` are text, with their bytes beside it. */
export function withOutputs({ stdout, stderr, stdoutBase64, stderrBase64, ...answer }) {
    withOutput(answer, 'stdout', 'stdoutBytes', stdout, stdoutBase64);
    return withOutput(answer, 'stderr', 'stderrBytes', stderr, stderrBase64);
}

/** An id that no other client makes. */
export function uniqueId() {
    const bytes = new Uint8Array(16);
    // Node 18 has no global crypto. The id is no secret.
    if (globalThis.crypto?.getRandomValues) globalThis.crypto.getRandomValues(bytes);
    else bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
