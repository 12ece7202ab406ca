// The content of a file for the editor: text that can be written back as it was, a picture, or bytes. Pure.

/** Bytes of a file that are read at most; a longer one is shown in part, and is not edited. */
export const MAX_SHOWN_BYTES = 1024 * 1024;

const HEX_BYTES = 4096;
const PICTURES = [
    { type: 'image/png', at: 0, magic: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a] },
    { type: 'image/jpeg', at: 0, magic: [0xff, 0xd8, 0xff] },
    { type: 'image/gif', at: 0, magic: [0x47, 0x49, 0x46, 0x38] },
    { type: 'image/webp', at: 8, magic: [0x57, 0x45, 0x42, 0x50] },
];

/**
 * `bytes`: the file's first ones; `isWhole`: all of them. Gives
 *     {kind: 'text', text, lineEnds: 'lf' | 'crlf' | 'mixed', isEditable, why}
 *     {kind: 'picture', type, data}      data: its bytes in base64
 *     {kind: 'binary', dump}
 * Text whose line ends a text field would not keep can be read only.
 */
export function contentOf(bytes, isWhole) {
    const picture = PICTURES.find(({ at, magic }) => magic.every((byte, index) => bytes[at + index] === byte));
    if (picture !== undefined && isWhole) return { kind: 'picture', type: picture.type, data: base64(bytes) };
    const text = bytes.includes(0) ? null : decoded(bytes, isWhole);
    if (text === null) return { kind: 'binary', dump: hexDump(bytes.subarray(0, HEX_BYTES)) };
    const lineEnds = lineEndsOf(text);
    let why = '';
    if (!isWhole) why = 'Only its beginning is shown, so it cannot be edited here.';
    else if (lineEnds === 'mixed') why = 'Its line ends differ from line to line, and an edit would change them.';
    return { kind: 'text', text: text.replaceAll('\r\n', '\n'), lineEnds, isEditable: why === '', why };
}

/** The picture in a file: {type, data}, its bytes in base64; null: it is none. An SVG is told by its name, and is shown as an image alone. */
export function pictureOf(name, bytes, isWhole) {
    const content = contentOf(bytes, isWhole);
    if (content.kind === 'picture') return { type: content.type, data: content.data };
    const isSvg = isWhole && /\.svg$/i.test(name) && content.kind === 'text' && content.text.includes('<svg');
    return isSvg ? { type: 'image/svg+xml', data: base64(bytes) } : null;
}

/** The bytes of an edited text, with the line ends that the file had. */
export function bytesOf(text, lineEnds) {
    return new TextEncoder().encode(lineEnds === 'crlf' ? text.replaceAll('\n', '\r\n') : text);
}

function decoded(bytes, isWhole) {
    try {
        // A part may end within a character. A byte order mark stays.
        return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: !isWhole });
    } catch {
        return null;
    }
}

function lineEndsOf(text) {
    const both = text.match(/\r\n/g)?.length ?? 0;
    const returns = text.match(/\r/g)?.length ?? 0;
    const feeds = text.match(/\n/g)?.length ?? 0;
    if (returns === 0) return 'lf';
    return returns === both && feeds === both ? 'crlf' : 'mixed';
}

/** Lines of 16 bytes: the place, the bytes, and the visible ASCII among them. */
export function hexDump(bytes) {
    const lines = [];
    for (let at = 0; at < bytes.length; at += 16) {
        const row = [...bytes.subarray(at, at + 16)];
        const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
        const seen = row.map((byte) => (byte > 0x1f && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('');
        lines.push(`${at.toString(16).padStart(8, '0')}  ${hex.padEnd(47)}  ${seen}`);
    }
    return lines.join('\n');
}

function base64(bytes) {
    let text = '';
    for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
    return btoa(text);
}
