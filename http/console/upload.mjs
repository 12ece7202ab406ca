// The upload of files that were dropped or chosen, with their paths below the folder that they go to. These paths are
// text, the folder is an href (paths.mjs). Pure but for the objects of the browser that it is given.
import { ApiError } from './api.mjs';
import { hrefOf, join, nameProblem } from './paths.mjs';

/** Files of one upload at most: whoever has more takes an archive. */
export const MAX_FILES = 2000;
const MAX_DEPTH = 32;
const AT_ONCE = 2;

/** The files of a drop: {files: [{path, blob}], folders: [path], isCut}. Call it within the event: the browser forgets. */
export async function itemsOfDrop(transfer) {
    const entries = [...(transfer.items ?? [])].filter(({ kind }) => kind === 'file').map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
    const found = { files: [], folders: [], isCut: false };
    for (const entry of entries) if (entry !== null) await walk(found, entry, '', 0);
    return found;
}

/** The same of a field that people choose files or a folder with. */
export function itemsOfInput(files) {
    const all = [...files];
    const taken = all.slice(0, MAX_FILES).map((file) => {
        const names = (file.webkitRelativePath || file.name).split('/').filter((name) => name !== '');
        return { path: names.join('/'), blob: file };
    });
    return { files: taken, folders: [], isCut: all.length > taken.length };
}

async function walk(found, entry, folder, depth) {
    if (found.files.length + found.folders.length >= MAX_FILES || depth > MAX_DEPTH) {
        found.isCut = true;
        return;
    }
    const path = join(folder, entry.name);
    if (entry.isDirectory) {
        found.folders.push(path);
        const reader = entry.createReader();
        // Each call gives some, the last one none.
        for (;;) {
            const some = await new Promise((done, fail) => reader.readEntries(done, fail));
            if (some.length === 0) return;
            for (const one of some) await walk(found, one, path, depth + 1);
        }
    }
    const blob = entry.isFile ? await new Promise((done, fail) => entry.file(done, fail)) : entry;
    found.files.push({ path, blob });
}

/**
 * Sends them into `folder`. `tell({done, of, name})` after each, until `signal` ends it. One that fails does not hold up the
 * others; those that cannot follow (no room, no server) are not tried. Gives {done, problems: [{path, message}]}.
 */
export async function upload(files, folder, items, { tell = () => {}, signal } = {}) {
    const problems = [];
    let done = 0;
    let isOver = false;
    const of = items.files.length + items.folders.length;
    const attempt = async (path, act) => {
        if (isOver || signal?.aborted) return;
        const bad = path.split('/').map(nameProblem).find((problem) => problem !== null);
        try {
            if (bad !== undefined) throw new ApiError(422, 'invalid_field', bad);
            await act(join(folder, hrefOf(path)));
            ++done;
        } catch (error) {
            if (signal?.aborted) return;
            problems.push({ path, message: error.message });
            isOver = [0, 401, 507].includes(error.status);
        }
        if (!signal?.aborted) tell({ done, of, name: path });
    };
    for (const path of items.folders) await attempt(path, (to) => files.makeFolder(to));
    const waiting = [...items.files];
    const work = async () => {
        for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
            const { blob } = one;
            await attempt(one.path, (to) => files.upload(to, blob, { signal }));
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return { done, problems };
}
