// Paths of a workspace as their hrefs: relative to it, '' for itself, each byte of a name percent-encoded but letters,
// digits and -._~ . A name may be any bytes, and two names may look the same: the href alone tells them apart and leads to
// the file. People see shownPath(). What a sandbox says is checked (soundHref) before it becomes a part of an address. Pure.

const PLAIN = /^[\w.~/-]*$/; // between escapes
const ESCAPE = /%[0-9A-Fa-f]{2}/g;

/** The href of a path as people type it. */
export function hrefOf(path) {
    const encode = (name) => encodeURIComponent(wellFormed(name)).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
    return path.split('/').map(encode).join('/');
}

/** The path for people: as it is, with U+FFFD for what is not UTF-8. */
export function shownPath(href) {
    const bytes = [];
    for (let at = 0; at < href.length; ++at) {
        if (href[at] !== '%') bytes.push(href.charCodeAt(at));
        else {
            bytes.push(Number.parseInt(href.slice(at + 1, at + 3), 16));
            at += 2;
        }
    }
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

/** The last part of a path for people. */
export function shownName(href) {
    return shownPath(nameOf(href));
}

/**
 * The path that a sandbox names, in the form that hrefOf() makes; null if it is none: a browser would make another
 * address of `..` or `\`, and send the key to it.
 */
export function soundHref(said) {
    if (typeof said !== 'string' || !PLAIN.test(said.replace(ESCAPE, ''))) return null;
    const parts = said.split('/').map((part) => part.replace(ESCAPE, (escape) => canonical(escape)));
    return parts.some((part) => part === '' || part === '.' || part === '..') ? null : parts.join('/');
}

export function join(folder, name) {
    return folder === '' ? name : `${folder}/${name}`;
}

export function parentOf(path) {
    const slash = path.lastIndexOf('/');
    return slash < 0 ? '' : path.slice(0, slash);
}

export function nameOf(path) {
    return path.slice(path.lastIndexOf('/') + 1);
}

/** True if `path` is `folder` or lies below it. */
export function isWithin(path, folder) {
    return folder === '' || path === folder || path.startsWith(`${folder}/`);
}

/** The fault of a name for a new entry, in words; null if it has none. */
export function nameProblem(name) {
    if (name === '') return 'A name is needed.';
    if (name === '.' || name === '..') return `“${name}” is no name of a file.`;
    if (name.includes('/')) return 'A name has no slash.';
    if (name.includes('\0')) return 'A name has no NUL.';
    if (new TextEncoder().encode(name).length > 255) return 'A name has 255 bytes at most.';
    return null;
}

// Gives each byte a single form: itself if it needs no escape, else an escape in capitals.
function canonical(escape) {
    const character = String.fromCharCode(Number.parseInt(escape.slice(1), 16));
    return /[\w.~-]/.test(character) ? character : escape.toUpperCase();
}

// Half of a surrogate pair is no character, and cannot be encoded.
function wellFormed(text) {
    return text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd');
}
