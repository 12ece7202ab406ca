// Folders of this machine, in Node: as a tar stream, and made of a sandbox's files, which are not trusted.
import { AtollError } from './errors.js';

const BLOCK_BYTES = 512;
const encode = (text) => new TextEncoder().encode(text);
const padding = (size) => new Uint8Array((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES);

/** A header of POSIX ustar. */
function ustar({ name, link = '', size = 0, mode = 0o644, seconds = 0, type }) {
    const header = new Uint8Array(BLOCK_BYTES);
    const put = (at, bytes, text) => header.set(encode(text).subarray(0, bytes), at);
    const number = (at, digits, value) => put(at, digits + 1, `${value.toString(8).padStart(digits, '0')}\0`);
    put(0, 100, name);
    number(100, 7, mode);
    number(108, 7, 0);
    number(116, 7, 0);
    number(124, 11, size);
    number(136, 11, seconds);
    put(148, 8, '        ');
    put(156, 1, type);
    put(157, 100, link);
    put(257, 8, 'ustar\x0000');
    number(148, 6, header.reduce((sum, byte) => sum + byte, 0));
    return header;
}

/** A record of a pax header: its length counts itself. */
function record(key, value) {
    const rest = encode(` ${key}=${value}\n`).length;
    let length = rest + 1;
    while (String(length).length + rest !== length) length = String(length).length + rest;
    return `${length} ${key}=${value}\n`;
}

/** The headers of an entry: what ustar has no room for goes into one of pax before it. */
function* headersOf({ size = 0, ...entry }) {
    let records = '';
    if (encode(entry.name).length > 100) records += record('path', entry.name);
    if (encode(entry.link ?? '').length > 100) records += record('linkpath', entry.link);
    const isLarge = size >= 8 ** 11;
    if (isLarge) records += record('size', size);
    if (records !== '') {
        const bytes = encode(records);
        yield ustar({ name: 'pax', size: bytes.length, type: 'x' });
        yield bytes;
        yield padding(bytes.length);
    }
    yield ustar({ ...entry, size: isLarge ? 0 : size });
}

/** The content of the folder `local` as pieces of a tar: files, folders and links. */
export async function* pack(local) {
    const fs = await import('node:fs');
    const path = await import('node:path');
    async function* inside(folder, prefix) {
        for (const name of (await fs.promises.readdir(folder)).sort()) {
            const place = path.join(folder, name);
            const stat = await fs.promises.lstat(place);
            const entry = { name: prefix + name, mode: stat.mode & 0o777, seconds: Math.max(0, Math.floor(stat.mtimeMs / 1000)) };
            if (stat.isDirectory()) {
                yield* headersOf({ ...entry, name: `${entry.name}/`, type: '5' });
                yield* inside(place, `${entry.name}/`);
            } else if (stat.isSymbolicLink()) yield* headersOf({ ...entry, link: await fs.promises.readlink(place), type: '2' });
            else if (stat.isFile()) {
                yield* headersOf({ ...entry, size: stat.size, type: '0' });
                yield* contentOf(fs, place, stat.size);
                yield padding(stat.size);
            }
        }
    }
    yield* inside(local, '');
    yield new Uint8Array(2 * BLOCK_BYTES);
}

/** The first `size` bytes of a file: it may grow meanwhile. */
async function* contentOf(fs, place, size) {
    let left = size;
    if (size > 0)
        for await (const piece of fs.createReadStream(place, { end: size - 1 })) {
            left -= piece.length;
            yield piece;
        }
    if (left > 0) throw new AtollError({ code: 'body_too_short', detail: `${place} became shorter while it was read` });
}

/** Copies the directory `path` of `files` into the folder `local`; gives the number of files. Nothing is written outside of it. */
export async function download(files, path, local, options) {
    const fs = (await import('node:fs')).promises;
    const { sep } = await import('node:path');
    await fs.mkdir(local, { recursive: true });
    const root = await fs.realpath(local, 'buffer');
    const below = (folder, name) => Buffer.concat([folder, Buffer.from(sep), name]);
    const isBelow = (place) => place.equals(root) || place.subarray(0, root.length + 1).equals(below(root, Buffer.from('')));
    const links = [];
    let count = 0;
    async function copy(from, folder) {
        if (!isBelow(await fs.realpath(folder, 'buffer'))) throw new AtollError({ code: 'invalid_path', detail: `${folder} leads out of ${local}` });
        for await (const entry of files.list(from, { ...options, all: true })) {
            // Raw bytes where the name is no UTF-8.
            const name = unescaped(entry.href.slice(entry.href.lastIndexOf('/') + 1));
            if (name.includes('/') || name.includes(sep) || name.includes('\0') || ['', '.', '..'].includes(name.toString()))
                throw new AtollError({ code: 'invalid_path', detail: `${entry.path} is not the name of a file` });
            const place = below(folder, name);
            if (entry.type === 'directory') {
                await fs.mkdir(place, { recursive: true });
                await copy(entry, place);
            } else if (entry.type === 'symlink') links.push({ place, target: entry.target });
            else if (entry.type === 'file') {
                await fs.rm(place, { force: true });
                await fs.writeFile(place, await files.readStream(entry, options), { flag: 'wx', mode: Number.parseInt(entry.mode, 8) & 0o100 ? 0o777 : 0o666 });
                ++count;
            }
        }
    }
    await copy(path, root);
    // Links come last, so that nothing is written through one of them; those that lead out are left out.
    for (const { place, target } of links) {
        await fs.rm(place, { force: true });
        await fs.symlink(target, place);
    }
    for (const { place, target } of links) {
        const end = await fs.realpath(place, 'buffer').catch(() => null);
        if (end === null ? target.startsWith('/') || target.split('/').includes('..') : !isBelow(end)) await fs.rm(place);
    }
    return count;
}

/** The bytes that a percent-encoded name stands for. */
function unescaped(name) {
    return Buffer.from(name.replace(/%([0-9A-Fa-f]{2})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16))), 'latin1');
}
