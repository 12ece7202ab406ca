// Requests: addresses, keys and tokens, errors, and a few more attempts where sending again is safe.
import { Access, subject } from './access.js';
import { AtollError, connectionFailed, errorOf } from './errors.js';
import { parseJson, toJson } from './json.js';
import { Socket } from './socket.js';
import { objectsOf } from './sse.js';
import { Backoff, Deadline, pause, throwIfAborted } from './waiting.js';

const MOST_RETRY_WAIT_S = 10;
const SILENCE_MS = 45_000; // three heartbeats
const READ_MS = 60_000;
// The server begins an answer within 15 minutes (docs/files.md).
const WORK_MS = 16 * 60_000;
const PROGRAM_MS = 30_000;

/** How long a call may take that runs a program for `timeoutMs`. */
export function callMs(timeoutMs = PROGRAM_MS) {
    return timeoutMs + WORK_MS;
}

/** True if the server may have done what was asked for, and no answer of it came. */
function isUnanswered(error) {
    // The last are of a proxy between here and the server.
    return error.code === 'connection_failed' || /^http_50[234]$/.test(error.code);
}

/** True if the same request may succeed in a moment. */
function isTransient(error) {
    if (!(error instanceof AtollError)) return false;
    if (error.code === 'no_token' || isUnanswered(error)) return true;
    return error.retryAfter !== null && error.retryAfter <= MOST_RETRY_WAIT_S && (error.status === 429 || error.status === 503);
}

/** A value is text or `{encoded}`, which stands in the address as it is. */
function queryOf(query) {
    const parts = new URLSearchParams();
    const encoded = [];
    for (const [name, value] of Object.entries(query)) {
        if (value?.encoded !== undefined) encoded.push(`${name}=${value.encoded}`);
        else if (value !== undefined && value !== null) parts.append(name, String(value));
    }
    const text = [...encoded, parts.toString()].filter((part) => part !== '').join('&');
    return text === '' ? '' : `?${text}`;
}

function parseAnswer(text, status, method, path) {
    try {
        return parseJson(text);
    } catch (cause) {
        throw new AtollError({ status, code: 'invalid_answer', detail: `${method} ${path} was not answered with JSON`, cause });
    }
}

/** Also the empty one and a path, which are those of the page's own server. */
function isAddress(text) {
    if (globalThis.location !== undefined && /^(\/(?!\/)|$)/.test(text)) return true;
    try {
        return /^https?:$/.test(new URL(text).protocol);
    } catch {
        return false;
    }
}

export class Transport {
    #fetch;
    #retries;
    #timeoutMs;
    #onRetry;

    constructor({
        baseUrl, apiKey, token, getToken, fetch = globalThis.fetch, WebSocket = globalThis.WebSocket, retries = 2, silenceMs = SILENCE_MS, timeoutMs, onRetry,
    }) {
        const environment = globalThis.process?.env ?? {};
        baseUrl ??= environment.ATOLL_URL;
        if (token === undefined && getToken === undefined) apiKey ??= environment.ATOLL_API_KEY;
        if (typeof baseUrl !== 'string' && !(baseUrl instanceof URL)) throw new TypeError('baseUrl is missing: the address of the server, also as ATOLL_URL of the environment');
        if (typeof fetch !== 'function') throw new TypeError('there is no fetch here: give one as the option fetch (Node 18 and later have one)');
        this.baseUrl = String(baseUrl).replace(/\/+$/, '');
        if (!isAddress(this.baseUrl)) throw new TypeError(`baseUrl is not the address of a server: ${JSON.stringify(String(baseUrl))}; it looks like http://127.0.0.1:4100`);
        // A browser's fetch insists on being called without another `this`.
        this.#fetch = (...args) => fetch(...args);
        this.#retries = retries;
        this.#timeoutMs = timeoutMs;
        this.#onRetry = onRetry;
        this.silenceMs = silenceMs;
        this.WebSocket = WebSocket;
        this.access = new Access({ apiKey, token, getToken }, (about, ttlSeconds, signal) => this.#makeToken(about, ttlSeconds, signal));
    }

    get hasWebSocket() {
        return typeof this.WebSocket === 'function';
    }

    async #makeToken({ kind, id, scope }, ttlSeconds, signal) {
        return this.json('POST', `/v1/${kind}/${encodeURIComponent(id)}/tokens`, { json: { scope, ttlSeconds }, attemptMs: this.silenceMs, signal });
    }

    /**
     * Opens a WebSocket: with the key in a header where that can be sent, else with a token. It may end before it is open; then
     * whyRefused() tells why. `onFirst` is called once the server has taken the token (socket.js).
     */
    async openSocket(path, { about, query = {}, getToken, signal }, { onFirst, ...handlers }) {
        const options = { ...handlers, silenceMs: this.silenceMs };
        const address = `${this.baseUrl.replace(/^http/, 'ws')}${path}`;
        if (this.access.hasKey && getToken === undefined) {
            try {
                return new Socket(this.WebSocket, `${address}${queryOf(query)}`, { ...options, headers: this.access.headers() });
            } catch (error) {
                // A browser's takes no headers.
                if (error?.name !== 'SyntaxError') throw error;
            }
        }
        const token = await this.access.token(about, { getToken, signal });
        return new Socket(this.WebSocket, `${address}${queryOf({ ...query, token })}`, { ...options, onFirst });
    }

    /** The objects of an event stream that a GET opens and that begins within `silenceMs`, or else the connection is given up. */
    live(path, options) {
        return this.events('GET', path, { ...options, again: 'never', attemptMs: this.silenceMs, timeoutMs: Infinity });
    }

    /**
     * The objects of the event stream that a request opens; `onOpen` is called when it does. Throws what the server closes it with,
     * and connection_failed where nothing comes for `silenceMs`.
     */
    async *events(method, path, { onOpen, onEpoch, ...options }) {
        const limit = this.#limit(method, path, options);
        try {
            const response = await this.#attempts(method, path, { ...options, accept: 'text/event-stream', signal: limit.signal });
            limit.meet();
            onOpen?.();
            for await (const object of objectsOf(response, { silenceMs: this.silenceMs, signal: limit.signal, onEpoch })) {
                if (object.type === 'stream_closed') throw new AtollError(object);
                yield object;
            }
        } finally {
            limit.release();
        }
    }

    /** The error of a WebSocket that ended with `end`. A refused handshake tells no reason; a GET of `path` may. */
    async whyRefused(socket, end, path, { about, query, getToken, signal }) {
        if (socket.wasOpen || end.code !== 'connection_failed') return end;
        try {
            await this.json('GET', path, { about, query, getToken, signal, again: 'never' });
        } catch (error) {
            throwIfAborted(signal);
            return error;
        }
        return end;
    }

    /** Tells of an attempt that failed and is repeated. What the callback throws ends the call. */
    tellRetry(method, path, attempt, delayMs, error) {
        this.#onRetry?.({ method, path, attempt, delayMs, error });
    }

    /** The time of a call, with all its attempts. Uploads have none unless the call says so. */
    #limit(method, path, { body, timeoutMs, signal }) {
        const isReading = method === 'GET' || method === 'HEAD';
        const ms = timeoutMs ?? (body === undefined ? (this.#timeoutMs ?? (isReading ? READ_MS : WORK_MS)) : Infinity);
        return new Deadline(ms, signal, () => new AtollError({ code: 'timeout', detail: `${method} ${path}: no answer within ${ms} ms` }));
    }

    /**
     * The JSON of the answer; null if it has none. `about` is what a token may open of it (access.js); without one the request needs an
     * API key. `again: 'safe'` allows more attempts, each of which has `attemptMs` for its answer, beside the wait for a token;
     * `onUnanswered` is called where one may have reached the server. `again: 'refused'` allows them only where none has. Throws AtollError, or the reason of an aborted signal.
     */
    json(method, path, options = {}) {
        return this.#use(method, path, options, async (response, { signal }) => {
            const text = await whole(response.text(), signal);
            return text === '' ? null : parseAnswer(text, response.status, method, path);
        });
    }

    /** Resolves with what `read` makes of the answer. There is no time limit for its body. */
    whole(method, path, options, read) {
        return this.#use(method, path, options, (response, limit) => {
            limit.meet();
            return whole(read(response), limit.signal);
        });
    }

    /** The body of the answer as a stream, without a time limit. The signal ends it, too. */
    async stream(method, path, options) {
        const limit = this.#limit(method, path, options);
        try {
            const { body } = await this.#attempts(method, path, { ...options, signal: limit.signal });
            limit.meet();
            return streamUntil(body, () => limit.release());
        } catch (error) {
            limit.release();
            throw error;
        }
    }

    async #use(method, path, options, use) {
        const limit = this.#limit(method, path, options);
        try {
            return await use(await this.#attempts(method, path, { ...options, signal: limit.signal }), limit);
        } finally {
            limit.release();
        }
    }

    async #attempts(method, path, { again = method === 'GET' || method === 'HEAD' ? 'safe' : 'never', onUnanswered, ...options }) {
        const backoff = new Backoff();
        for (let attempt = 1; ; ++attempt) {
            try {
                return await this.#authorized(method, path, options);
            } catch (error) {
                throwIfAborted(options.signal);
                if (again === 'never' || attempt > this.#retries || !isTransient(error)) throw error;
                if (again === 'refused' && isUnanswered(error)) throw error;
                if (isUnanswered(error)) onUnanswered?.();
                const delayMs = backoff.next(error.retryAfter);
                this.tellRetry(method, path, attempt, delayMs, error);
                await pause(delayMs, options.signal);
            }
        }
    }

    async #authorized(method, path, options) {
        const { about, getToken, signal } = options;
        if (this.access.hasKey && getToken === undefined) return this.#once(method, path, options, {});
        if (about === undefined) throw new AtollError({ status: 401, code: 'unauthorized', detail: `${method} ${path} needs an apiKey; tokens do not open it.` });
        const token = await this.access.token(about, { getToken, signal });
        try {
            return await this.#once(method, path, options, { token });
        } catch (error) {
            if (!(error instanceof AtollError) || error.status !== 401 || !this.access.canRenew(getToken)) throw error;
            this.access.forget(about, token);
            const fresh = await this.access.token(about, { getToken, signal });
            return this.#once(method, path, options, { token: fresh });
        }
    }

    async #once(method, path, { query = {}, json, body, headers = {}, accept, attemptMs = Infinity, signal }, { token }) {
        const request = { method, headers: { ...(token === undefined ? this.access.headers() : {}), ...headers }, credentials: 'omit', cache: 'no-store' };
        if (accept !== undefined) request.headers.Accept = accept;
        if (json !== undefined) {
            request.headers['Content-Type'] = 'application/json';
            request.body = toJson(json);
        } else if (body !== undefined) {
            request.headers['Content-Type'] ??= 'application/octet-stream';
            request.body = body;
            if (typeof body?.getReader === 'function') request.duplex = 'half';
        }
        const limit = new Deadline(attemptMs, signal, () => connectionFailed(`${method} ${path}: no answer within ${attemptMs} ms`));
        try {
            const response = await this.#fetch(`${this.baseUrl}${path}${queryOf({ ...query, token })}`, { ...request, signal: limit.signal });
            if (!response.ok) throw await errorOf(response);
            // The signal still ends the body.
            limit.meet();
            return response;
        } catch (error) {
            limit.release();
            throwIfAborted(limit.signal);
            if (error instanceof AtollError) throw error;
            throw connectionFailed(`${method} ${path}: ${error?.cause?.message ?? error?.message ?? error}`, error);
        }
    }
}

/** Resolves with the body that `reading` gives. Throws connection_failed where it breaks off. */
async function whole(reading, signal) {
    try {
        return await reading;
    } catch (error) {
        throwIfAborted(signal);
        throw connectionFailed('the answer broke off', error);
    }
}

/** The stream `body`; `release` is called when it has ended, was cancelled or broke. */
function streamUntil(body, release) {
    const reader = body.getReader();
    const source = {
        async pull(controller) {
            const { value, done } = await reader.read().catch((error) => {
                release();
                throw error;
            });
            if (!done) return controller.enqueue(value);
            release();
            controller.close();
        },
        cancel(reason) {
            release();
            return reader.cancel(reason);
        },
    };
    return new ReadableStream(source, { highWaterMark: 0 });
}

/** The token that opens a conversation's streams. */
export const conversationSubject = (id) => subject('conversations', id, 'chat');
export const filesSubject = (id) => subject('sandboxes', id, 'files');
export const terminalSubject = (id) => subject('sandboxes', id, 'terminal');
export const executionSubject = (id) => subject('executions', id, 'read');
