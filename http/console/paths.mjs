// Paths of a workspace as the server tells them: path text, relative to the workspace, '' for the workspace itself. A
// byte that is part of no UTF-8 character is %XX there, and a % before two hexadecimal digits is %25; everything else
// stands for itself. Pure.

const ESCAPE = /(%[0-9A-Fa-f]{2})/;

/** The path text of a name as people type it. */
export function textOfName(name) {
    return wellFormed(name).replace(/%(?=[0-9A-Fa-f]{2})/g, '%25');
}

/** The path text as a part of an address: each byte of the path is encoded once. */
export function addressOf(path) {
    return path
        .split(ESCAPE)
        .map((part) => (ESCAPE.test(part) ? part : encodeURIComponent(wellFormed(part)).replaceAll('%2F', '/')))
        .join('');
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

/** Whether `path` is `folder` or lies below it. */
export function isWithin(path, folder) {
    return folder === '' || path === folder || path.startsWith(`${folder}/`);
}

/** A path as any route tells it, relative to the workspace; null if it lies elsewhere. */
export function relativePath(path) {
    if (path === '/workspace') return '';
    const inside = path.startsWith('/workspace/') ? path.slice('/workspace/'.length) : path;
    return inside.startsWith('/') ? null : inside.replace(/^\.\/|\/+$/g, '');
}

/** What is wrong with a name that is to be made, in words; null if nothing is. */
export function nameProblem(name) {
    if (name === '') return 'A name is needed.';
    if (name === '.' || name === '..') return `“${name}” is no name of a file.`;
    if (name.includes('/')) return 'A name has no slash.';
    if (name.includes('\0')) return 'A name has no NUL.';
    if (new TextEncoder().encode(name).length > 255) return 'A name has 255 bytes at most.';
    return null;
}

// Half of a surrogate pair is no character, and cannot be encoded.
function wellFormed(text) {
    return text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd');
}
