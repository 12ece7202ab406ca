// The files of one sandbox over the wire. Paths are hrefs (paths.mjs). Every refusal is an ApiError.
import { sandboxPathOf } from './api.mjs';

const PAGE = 1000;
/** Entries of one folder that are read at most. */
export const MAX_ENTRIES = 5000;
// A download takes as long as it takes, and the server ends it with its token.
const LINK_SECONDS = 3600;

export class Files {
    #api;
    #base;

    constructor(api, sandboxId) {
        this.#api = api;
        this.#base = sandboxPathOf(sandboxId);
    }

    #path(path, query = '') {
        return `${this.#base}/files/${path}${query}`;
    }

    /**
     * The entries of a folder: {entries, isCut, hidden}. `all`: also what shells and package managers keep at the top of the
     * workspace; `hidden`: how many of these were left out.
     */
    async list(path, { all = false, signal } = {}) {
        const entries = [];
        let hidden = 0;
        let cursor = '';
        do {
            const from = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
            const page = await this.#api.json('GET', this.#path(path, `?list=1&depth=1&limit=${PAGE}${all ? '&all=1' : ''}${from}`), { signal });
            entries.push(...page.entries);
            hidden = page.hidden ?? 0;
            cursor = page.next ?? '';
        } while (cursor !== '' && entries.length < MAX_ENTRIES);
        return { entries, isCut: cursor !== '', hidden };
    }

    /** The entries of the upper folders, at most PAGE of them. */
    async top(signal) {
        return (await this.#api.json('GET', this.#path('', `?list=1&depth=3&limit=${PAGE}`), { signal })).entries;
    }

    /** At most `limit` bytes from the beginning: {bytes, isWhole, size, etag}. */
    async read(path, limit, { signal } = {}) {
        const response = await this.#api.fetch('GET', this.#path(path), { signal });
        const bytes = new Uint8Array(limit + 1);
        let taken = 0;
        const reader = response.body?.getReader();
        while (reader !== undefined && taken <= limit) {
            const { value, done } = await reader.read();
            if (done) break;
            const some = value.subarray(0, bytes.length - taken);
            bytes.set(some, taken);
            taken += some.length;
        }
        const isWhole = taken <= limit;
        if (!isWhole) reader.cancel().catch(() => {});
        const told = Number(response.headers.get('Content-Length') ?? NaN);
        const size = isWhole ? taken : Number.isFinite(told) ? told : null;
        return { bytes: bytes.subarray(0, Math.min(taken, limit)), isWhole, size, etag: response.headers.get('ETag') };
    }

    /** Writes over the file as it was read; 412 where it is another one by now. Gives its new ETag. */
    async save(path, bytes, etag) {
        return this.#put(path, bytes, { 'If-Match': etag });
    }
    /** 412 where there is such a file already. */
    async create(path, bytes = new Uint8Array()) {
        return this.#put(path, bytes, { 'If-None-Match': '*' });
    }
    /** `blob` is read while it is sent. Replaces what is there. */
    async upload(path, blob, { signal } = {}) {
        return this.#put(path, blob, {}, signal);
    }

    async #put(path, bytes, headers, signal) {
        const response = await this.#api.fetch('PUT', this.#path(path), { bytes, headers, signal });
        return response.headers.get('ETag') ?? (await response.json()).etag ?? null;
    }

    /** The ETag of the file that is there now; a link is followed, as reading and writing follow it. */
    async etag(path) {
        return (await this.#api.fetch('HEAD', this.#path(path))).headers.get('ETag');
    }
    makeFolder(path) {
        return this.#api.fetch('POST', this.#path(path), { body: { op: 'mkdir' } });
    }
    move(path, to) {
        return this.#api.fetch('POST', this.#path(path), { body: { op: 'move', toHref: to } });
    }
    remove(path, isFolder) {
        return this.#api.fetch('DELETE', this.#path(path, isFolder ? '?recursive=1' : ''));
    }

    /** An address that downloads the file, or the folder as tar: for a link, which sends no key. */
    async link(path, isFolder, all = false) {
        const body = { scope: 'files', ttlSeconds: LINK_SECONDS };
        const { token } = await this.#api.json('POST', `${this.#base}/tokens`, { body });
        const query = `token=${encodeURIComponent(token)}`;
        if (!isFolder) return this.#path(path, `?${query}`);
        const folder = path === '' ? '' : `path=${path}&`;
        return `${this.#base}/archive?${folder}${all ? 'all=1&' : ''}${query}`;
    }

    /** The stream of changes: a Response of Server-Sent Events. `all` as of list(). */
    watch(signal, all = false) {
        return this.#api.fetch('GET', `${this.#base}/watch${all ? '?all=1' : ''}`, { headers: { Accept: 'text/event-stream' }, signal });
    }
}
