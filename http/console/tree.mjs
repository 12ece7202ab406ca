// The folders and files of a workspace as a tree that people open and close; paths are hrefs (paths.mjs). Pure: it is told
// listings and gives rows.
import { isWithin, join, nameOf, parentOf, shownPath, soundHref } from './paths.mjs';

const RANK = { directory: 0 };

export class Tree {
    #folders = new Map([['', { state: 'unread', entries: [], isCut: false, problem: '' }]]);
    #open = new Set(['']);
    #selected = null;

    get selected() {
        return this.#selected;
    }

    /** The folders whose entries are to be seen. */
    openFolders() {
        return [...this.#open].filter((path) => this.#isSeen(path));
    }

    isOpen(path) {
        return this.#open.has(path);
    }
    /** The entry at `path`, or undefined where nothing was listed. */
    find(path) {
        return this.#folders.get(parentOf(path))?.entries.find((entry) => entry.path === path);
    }
    isFolder(path) {
        return path === '' || this.find(path)?.type === 'directory';
    }
    /** The folder that a new entry goes to. */
    targetFolder() {
        if (this.#selected === null) return '';
        return this.isFolder(this.#selected) ? this.#selected : parentOf(this.#selected);
    }

    open(path) {
        this.#open.add(path);
        if (!this.#folders.has(path)) this.#folders.set(path, { state: 'unread', entries: [], isCut: false, problem: '' });
    }
    close(path) {
        if (path !== '') this.#open.delete(path);
        if (this.#selected !== null && this.#selected !== path && isWithin(this.#selected, path)) this.#selected = path;
    }
    select(path) {
        this.#selected = path;
    }
    /** Opens every folder above `path`. */
    reveal(path) {
        for (let folder = parentOf(path); folder !== ''; folder = parentOf(folder)) this.open(folder);
    }

    /** `entries` as the server lists them. What is gone is forgotten with all below it, and what has no sound href is left out. */
    listed(path, entries, isCut = false) {
        const sorted = entries
            .map(({ href, type, size, target }) => ({ name: soundHref(href) === null ? '' : nameOf(soundHref(href)), type, size, target }))
            .filter(({ name }) => name !== '')
            .map((entry) => ({ ...entry, path: join(path, entry.name), name: shownPath(entry.name) }))
            .sort((a, b) => (RANK[a.type] ?? 1) - (RANK[b.type] ?? 1) || compare(a.name, b.name) || (a.path < b.path ? -1 : 1));
        const kept = new Set(sorted.filter(({ type }) => type === 'directory').map((entry) => entry.path));
        for (const folder of [...this.#folders.keys()]) {
            if (folder === '' || folder === path || !isWithin(folder, path)) continue;
            const child = this.#childOf(path, folder);
            if (!kept.has(child)) this.#forget(folder);
        }
        this.#folders.set(path, { state: 'ready', entries: sorted, isCut, problem: '' });
        if (this.#selected !== null && parentOf(this.#selected) === path && this.find(this.#selected) === undefined) this.#selected = null;
    }
    /** The listing failed. A folder that is gone is forgotten: its parent's listing tells. */
    failed(path, problem) {
        const { entries = [] } = this.#folders.get(path) ?? {};
        this.#folders.set(path, { state: 'failed', entries, isCut: false, problem });
    }

    /**
     * From top to bottom: {path, name, type, level, size, target, isOpen (of a folder)} and, without a path,
     * {level, note} for what is to be said of a folder.
     */
    rows() {
        const out = [];
        this.#append(out, '', 1);
        return out;
    }

    #append(out, path, level) {
        const folder = this.#folders.get(path);
        if (folder === undefined || folder.state === 'unread') return void out.push({ level, note: 'Reading…' });
        if (folder.state === 'failed') out.push({ level, note: folder.problem });
        for (const entry of folder.entries) {
            const isFolder = entry.type === 'directory';
            const row = { ...entry, level };
            if (isFolder) row.isOpen = this.#open.has(entry.path);
            out.push(row);
            if (row.isOpen) this.#append(out, entry.path, level + 1);
        }
        if (folder.state === 'ready' && folder.entries.length === 0) out.push({ level, note: level === 1 ? 'The workspace is empty.' : 'Empty' });
        if (folder.isCut) out.push({ level, note: 'There are more entries than are shown.' });
    }

    /**
     * Where a key of the pattern for trees (ARIA Authoring Practices) leads: {select}, {open}, {close}, or null.
     */
    key(key) {
        const paths = this.rows().filter(({ path }) => path !== undefined);
        if (paths.length === 0) return null;
        const at = paths.findIndex(({ path }) => path === this.#selected);
        const to = (index) => ({ select: paths[Math.max(0, Math.min(paths.length - 1, index))].path });
        if (key === 'Home' || (at < 0 && key === 'ArrowDown')) return to(0);
        if (key === 'End') return to(paths.length - 1);
        if (at < 0) return null;
        const row = paths[at];
        if (key === 'ArrowDown') return to(at + 1);
        if (key === 'ArrowUp') return to(at - 1);
        if (key === 'ArrowRight' && row.isOpen !== undefined) return row.isOpen ? (paths[at + 1]?.level > row.level ? to(at + 1) : null) : { open: row.path };
        if (key === 'ArrowLeft') {
            if (row.isOpen) return { close: row.path };
            return parentOf(row.path) === '' ? null : { select: parentOf(row.path) };
        }
        return null;
    }

    #isSeen(path) {
        for (let folder = path; folder !== ''; folder = parentOf(folder)) if (!this.#open.has(parentOf(folder))) return false;
        return true;
    }
    #childOf(folder, path) {
        const rest = folder === '' ? path : path.slice(folder.length + 1);
        return join(folder, rest.split('/')[0]);
    }
    #forget(path) {
        this.#folders.delete(path);
        this.#open.delete(path);
        if (this.#selected !== null && isWithin(this.#selected, path)) this.#selected = null;
    }
}

// Names with numbers as people count them; else by their characters, so that the order is the same everywhere.
function compare(a, b) {
    return a.localeCompare(b, 'en', { numeric: true, sensitivity: 'base' }) || (a < b ? -1 : a > b ? 1 : 0);
}
