// A WebSocket as a queue of the frames that it received, and then one end. Its methods never throw, and it never reports an error by itself.
import { AtollError, connectionFailed } from './errors.js';
import { onWake } from './waiting.js';

const OPEN = 1;
const CLOSING_MS = 2000;
// The most frames and bytes that wait for a slow reader. Beyond that the socket is closed; the reader goes on later from where it is.
const MOST_WAITING = 20_000;
const MOST_WAITING_BYTES = 16 * 1024 * 1024;

// No JSON: the server refuses it with this code and changes nothing. A browser shows no pings, so this tells whether the connection lives.
const PROBE = 'ping';
const PROBE_ANSWER = 'invalid_json';
// More input than this may wait for a process that does not read, and the probes behind it: then no answer means nothing.
const MOST_HELD_BYTES = 32 * 1024;

const CODES = { 4401: 'token_expired', 4403: 'token_mismatch', 4404: 'conversation_ended', 4410: 'log_replaced' };
const BROKEN_BY_CLIENT = new Set([1002, 1003, 1007, 1009]);

/** Why a WebSocket was closed: the reason's JSON, else what its code means. */
function endOf({ code, reason }) {
    let told = {};
    try {
        told = JSON.parse(reason) ?? {};
    } catch {
        // The connection broke, or something between here and the server closed it.
    }
    const name = told.code ?? CODES[code] ?? (BROKEN_BY_CLIENT.has(code) ? 'protocol_error' : 'connection_failed');
    if (name === 'connection_failed') return connectionFailed(`the WebSocket was closed with ${code}`);
    return new AtollError({ code: name, detail: told.detail ?? `the WebSocket was closed with ${code}`, logEpoch: told.logEpoch });
}

export class Socket {
    #socket;
    #waiting = [];
    #waitingBytes = 0;
    #end = null;
    #wake = null;
    #onFirst;
    #silenceMs;
    #timer;
    #isAsked = false;
    /** Bytes of input: all that were sent, all before each probe that has no answer, and all that the server has taken. */
    #sentBytes = 0;
    #sentBefore = [];
    #passedBytes = 0;
    #unlisten = () => {};

    wasOpen = false;

    /**
     * `onOpen` may be left out, and `headers`, which Node's WebSocket and that of `ws` can send. It ends when it is not open, or when
     * nothing comes, for `silenceMs`. `onFirst` is called with the first frame; one is asked for as soon as the socket is open.
     */
    constructor(WebSocket, url, { headers, silenceMs = Infinity, onOpen, onFirst } = {}) {
        if (typeof WebSocket !== 'function') {
            throw new TypeError('There is no WebSocket here: Node has one from 22 on. Leave the option transport out, or give the client one, ' +
                'for example that of the package "ws": new Atoll({…, WebSocket}).');
        }
        this.#onFirst = onFirst;
        this.#silenceMs = silenceMs;
        const socket = (this.#socket = headers === undefined ? new WebSocket(url) : new WebSocket(url, { headers }));
        socket.binaryType = 'arraybuffer';
        socket.onopen = () => this.#guard(() => {
            this.wasOpen = true;
            this.#unlisten = onWake(() => this.#ask());
            this.#watch();
            onOpen?.(this);
            if (onFirst !== undefined) this.#ask();
        });
        socket.onmessage = ({ data }) => this.#guard(() => this.#take(data));
        socket.onerror = (event) => {
            // Some end without a close event if they never opened.
            const cause = event?.error;
            setTimeout(() => this.#ended(connectionFailed(`the WebSocket failed${cause?.message ? `: ${cause.message}` : ''}`, cause)), 0);
        };
        socket.onclose = (event) => this.#ended(endOf(event));
        this.#timer = timerOf(silenceMs, () => this.#ended(connectionFailed(`the WebSocket was not open within ${silenceMs} ms`)));
    }

    get isOpen() {
        return this.#end === null && this.#socket.readyState === OPEN;
    }

    /** Sends frames, of which those of bytes are input; false if the socket is not open. */
    send(frames) {
        if (!this.isOpen) return false;
        for (const frame of frames) {
            this.#socket.send(frame);
            if (typeof frame !== 'string') this.#sentBytes += frame.length;
        }
        // Else it stays unknown whether that much input has passed, and silence would mean nothing from here on.
        if (this.#sentBytes - (this.#sentBefore.at(-1) ?? this.#passedBytes) > MOST_HELD_BYTES) this.#probe();
        return true;
    }

    /** Bytes of input that the server may not have taken. */
    get pendingBytes() {
        return this.#sentBytes - this.#passedBytes;
    }

    /** The next frame, or {end} with an AtollError after the last one. */
    async next() {
        while (this.#waiting.length === 0) {
            if (this.#end !== null) return { end: this.#end };
            await new Promise((wake) => (this.#wake = wake));
        }
        const data = this.#waiting.shift();
        this.#waitingBytes -= data.length ?? data.byteLength;
        return { data };
    }

    close() {
        this.#ended(connectionFailed('the WebSocket was closed here'));
    }

    /** Calls `run`. An error that it throws (a callback of the user may) ends the socket, and next() tells it. */
    #guard(run) {
        try {
            run();
        } catch (error) {
            this.#ended(error);
        }
    }
    /** Looks for silence from now on: asks after two thirds of `silenceMs`. */
    #watch() {
        this.#isAsked = false;
        this.#after(2 / 3, () => this.#ask());
    }
    /** Asks for a sign of life; the socket ends without one, unless input may hold it up. */
    #ask() {
        if (!this.isOpen || this.#isAsked) return;
        this.#isAsked = true;
        this.#probe();
        this.#after(1 / 3, () => {
            if (this.pendingBytes <= MOST_HELD_BYTES) this.#ended(connectionFailed(`the WebSocket was silent for ${this.#silenceMs} ms`));
        });
    }
    #after(part, call) {
        clearTimeout(this.#timer);
        this.#timer = timerOf(part * this.#silenceMs, call);
    }
    #probe() {
        this.#sentBefore.push(this.#sentBytes);
        this.#socket.send(PROBE);
    }
    /** True if `data` answers a probe and nothing else. Answers come in the order of the probes. */
    #isAnswer(data) {
        if (this.#sentBefore.length === 0 || typeof data !== 'string' || !data.slice(0, 100).includes('"rejected"')) return false;
        const { type, code, id } = JSON.parse(data);
        if (type !== 'rejected' || code !== PROBE_ANSWER || id !== undefined) return false;
        this.#passedBytes = this.#sentBefore.shift();
        return true;
    }
    #take(data) {
        if (this.#end !== null) return;
        this.#watch();
        this.#onFirst?.();
        this.#onFirst = undefined;
        if (this.#isAnswer(data)) return;
        this.#waiting.push(data);
        this.#waitingBytes += data.length ?? data.byteLength;
        if (this.#waiting.length > MOST_WAITING || this.#waitingBytes > MOST_WAITING_BYTES) this.close();
        this.#wakeUp();
    }
    #ended(end) {
        if (this.#end !== null) return;
        this.#end = end;
        clearTimeout(this.#timer);
        this.#unlisten();
        this.#shut();
        this.#wakeUp();
    }
    #shut() {
        const socket = this.#socket;
        try {
            socket.close(1000);
        } catch {
            // It has never been open.
        }
        // `ws` waits long for the other end's close frame.
        if (typeof socket.terminate !== 'function' || socket.readyState === 3) return;
        const late = setTimeout(() => socket.terminate(), CLOSING_MS);
        socket.onclose = () => clearTimeout(late);
        late.unref?.();
    }
    #wakeUp() {
        this.#wake?.();
        this.#wake = null;
    }
}

function timerOf(ms, call) {
    return ms < Infinity ? setTimeout(call, ms) : undefined;
}
