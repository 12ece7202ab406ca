// The files of a sandbox's workspace.
import { AtollError, connectionFailed, isPassingStatus } from './errors.js';
import { download, pack } from './folders.js';
import { pages } from './pages.js';
import { filesSubject } from './transport.js';
import { Backoff, Iteration, throwIfAborted } from './waiting.js';

const WORKSPACE = '/workspace';
const isNode = typeof globalThis.process?.versions?.node === 'string';

/**
 * A path as the route takes it, relative to the workspace: text is percent-encoded, of an entry the `href` is taken. `..` is
 * refused, also from a server that lists it: a browser and Node would shorten the address, and send the key to another route.
 */
export function encodePath(path) {
    if (typeof path === 'object' && path !== null) return checkHref(path.href);
    let tail = path;
    if (path === WORKSPACE || path.startsWith(`${WORKSPACE}/`)) tail = path.slice(WORKSPACE.length + 1);
    else if (path.startsWith('/')) throw new AtollError({ code: 'invalid_path', detail: `${path} is not below ${WORKSPACE}` });
    const parts = tail.split('/').filter((part) => part !== '' && part !== '.');
    if (parts.includes('..')) throw new AtollError({ code: 'invalid_path', detail: `${path} has a part that is ".."` });
    return parts.map(encodeURIComponent).join('/');
}

function checkHref(href) {
    const isEncoded = typeof href === 'string' && /^(?:[\w.~/-]|%[0-9A-Fa-f]{2})*$/.test(href) && !href.startsWith('/');
    if (isEncoded && !href.split('/').some((part) => /^(\.|%2e){1,2}$/i.test(part))) return href;
    throw new AtollError({ code: 'invalid_path', detail: `${href} is not the href of a file` });
}

/** A path as a value of a query: text, or what is encoded already. */
function queryPath(path) {
    return typeof path === 'object' && path !== null ? { encoded: encodePath(path) } : path;
}

/** Where something goes. Text is `to`; only `toHref` names bytes that are not UTF-8. */
function targetOf(to) {
    return typeof to === 'object' && to !== null ? { toHref: encodePath(to) } : { to };
}

/** A body that fetch takes here. Node sends any stream; a browser mostly does not, so there it is collected first. */
async function bodyOf(data) {
    const isIterable = typeof data?.[Symbol.asyncIterator] === 'function';
    if (typeof data?.getReader !== 'function' && !isIterable) return data;
    const stream = typeof data.getReader === 'function' ? data : streamOf(data);
    return isNode ? stream : new Response(stream).blob();
}

function streamOf(iterable) {
    const iterator = iterable[Symbol.asyncIterator]();
    return new ReadableStream({
        async pull(controller) {
            const { value, done } = await iterator.next();
            if (done) controller.close();
            else controller.enqueue(typeof value === 'string' ? new TextEncoder().encode(value) : value);
        },
        async cancel() {
            await iterator.return?.();
        },
    });
}

/** True if a range holds no byte. `Range` cannot say that: the server would ignore it and send the whole file. */
function isEmpty({ start = 0, end = Infinity } = {}) {
    for (const position of [start, end]) {
        const isPosition = Number.isSafeInteger(position) && position >= 0;
        if (!isPosition && (position !== Infinity || position === start)) throw new RangeError(`a range has whole numbers from 0 on, not ${position}`);
    }
    return end <= start;
}

export class Files {
    #transport;
    #path;
    #about;

    constructor(transport, path, id) {
        this.#transport = transport;
        this.#path = path;
        this.#about = filesSubject(id);
    }

    #json(method, path, options) {
        const about = method === 'GET' ? this.#about : undefined;
        return this.#transport.json(method, `${this.#path}/files/${encodePath(path)}`, { about, ...options });
    }

    /** The arguments of a request that GETs a file. */
    #reading(path, { range, signal, timeoutMs }) {
        const headers = range === undefined ? {} : { Range: `bytes=${range.start ?? 0}-${range.end === undefined ? '' : range.end - 1}` };
        return ['GET', `${this.#path}/files/${encodePath(path)}`, { about: this.#about, headers, signal, timeoutMs }];
    }
    async read(path, options = {}) {
        if (isEmpty(options.range)) return new Uint8Array(0);
        return new Uint8Array(await this.#transport.whole(...this.#reading(path, options), (response) => response.arrayBuffer()));
    }
    async readText(path, options = {}) {
        return new TextDecoder().decode(await this.read(path, options));
    }
    async readStream(path, options = {}) {
        if (isEmpty(options.range)) return new Blob([]).stream();
        return this.#transport.stream(...this.#reading(path, options));
    }
    async write(path, data, { mode, inplace, ifMatch, ifNoneMatch, onProgress, signal, timeoutMs } = {}) {
        const headers = {};
        if (ifMatch !== undefined) headers['If-Match'] = ifMatch;
        if (ifNoneMatch !== undefined) headers['If-None-Match'] = ifNoneMatch;
        const query = { mode: typeof mode === 'number' ? `0${mode.toString(8)}` : mode, inplace: inplace ? 1 : undefined };
        return this.#changeFile('PUT', path, { headers, query, body: await bodyOf(data), onProgress, signal, timeoutMs });
    }
    list(path = '', { depth, limit, all, signal, timeoutMs } = {}) {
        const query = { list: 1, depth, limit, all: all ? 1 : undefined };
        return pages(this.#transport, `${this.#path}/files/${encodePath(path)}`, { query, items: 'entries', about: this.#about, signal, timeoutMs });
    }
    stat(path, { signal, timeoutMs } = {}) {
        return this.#json('GET', path, { query: { stat: 1 }, signal, timeoutMs });
    }
    /** The answer of a change; with `onProgress` that of a stream, which tells how far the change is. */
    async #change(method, path, { onProgress, ...options }) {
        if (onProgress === undefined) return this.#transport.json(method, path, options);
        for await (const frame of this.#transport.events(method, path, options)) {
            if (frame.type === 'error') throw new AtollError(frame);
            if (frame.type === 'file_result') return frame.result;
            onProgress(frame);
        }
        throw connectionFailed('the stream ended before the result');
    }
    #changeFile(method, path, options) {
        return this.#change(method, `${this.#path}/files/${encodePath(path)}`, options);
    }
    mkdir(path, { signal, timeoutMs } = {}) {
        return this.#json('POST', path, { json: { op: 'mkdir' }, signal, timeoutMs });
    }
    move(path, to, { overwrite, onProgress, signal, timeoutMs } = {}) {
        return this.#changeFile('POST', path, { json: { op: 'move', ...targetOf(to), overwrite }, onProgress, signal, timeoutMs });
    }
    copy(path, to, { overwrite, onProgress, signal, timeoutMs } = {}) {
        return this.#changeFile('POST', path, { json: { op: 'copy', ...targetOf(to), overwrite }, onProgress, signal, timeoutMs });
    }
    async remove(path, { recursive = false, onProgress, signal, timeoutMs } = {}) {
        await this.#changeFile('DELETE', path, { query: { recursive: recursive ? 1 : undefined }, onProgress, signal, timeoutMs });
    }
    async archive({ path, format, all, signal, timeoutMs } = {}) {
        const query = { path: queryPath(path), format, all: all ? 1 : undefined };
        return this.#transport.stream('GET', `${this.#path}/archive`, { about: this.#about, query, signal, timeoutMs });
    }
    async unpack(data, { path, format, onProgress, signal, timeoutMs } = {}) {
        const headers = { 'Content-Type': 'application/octet-stream' };
        return this.#change('PUT', `${this.#path}/archive`, { headers, query: { path: queryPath(path), format }, body: await bodyOf(data), onProgress, signal, timeoutMs });
    }
    async uploadDir(local, options = {}) {
        let failure; // of this machine, which fetch would call one of the connection
        async function* pieces() {
            try {
                yield* pack(local);
            } catch (error) {
                failure = error;
                throw error;
            }
        }
        try {
            return await this.unpack(pieces(), options);
        } catch (error) {
            throw failure ?? error;
        }
    }
    downloadDir(path, local, { all, signal, timeoutMs } = {}) {
        return download(this, path ?? '', local, { all, signal, timeoutMs });
    }

    watch({ path, recursive, all, signal } = {}) {
        const query = { path: queryPath(path), recursive: recursive === false ? 0 : undefined, all: all ? 1 : undefined };
        return new Iteration((inner) => this.#changes(query, inner), signal);
    }

    /** Changes are not numbered: where a watch has started anew, some were missed. */
    async *#changes(query, signal) {
        const backoff = new Backoff();
        for (let isAgain = false; ; isAgain = true) {
            let error;
            try {
                const options = { about: this.#about, query, onOpen: () => backoff.connected(), signal };
                for await (const change of this.#transport.live(`${this.#path}/watch`, options)) {
                    backoff.succeeded();
                    yield isAgain && change.type === 'started' ? { type: 'rescan' } : change;
                }
            } catch (thrown) {
                error = thrown;
            }
            throwIfAborted(signal);
            if (error !== undefined && !isPassing(error)) throw error;
            if (error?.code === 'token_expired') this.#transport.access.forget(this.#about);
            const tell = (...told) => this.#transport.tellRetry('GET', `${this.#path}/watch`, ...told);
            if (error?.code !== 'token_expired') await backoff.wait(error ?? connectionFailed('the stream ended'), signal, tell);
        }
    }
}

function isPassing(error) {
    if (!(error instanceof AtollError)) return false;
    return isPassingStatus(error) && error.code !== 'not_found' && error.code !== 'conversation_ended';
}
