// Processes that live on unattended, and the attachment to one: its output from any byte on, over connections that break.
import { isFromGetToken } from './access.js';
import { bytesOf } from './bytes.js';
import { AtollError, connectionFailed, isPassingStatus } from './errors.js';
import { programOf } from './sandbox.js';
import { terminalSubject } from './transport.js';
import { Backoff, Iteration, throwIfAborted } from './waiting.js';

const STDIN = 0;
// Each frame counts as a request, of which a key has so many a second; a slow connection needs time for a large one. The server takes 1 MiB at most.
const FRAME_BYTES = 256 * 1024;
const STREAMS = { 1: 'stdout', 2: 'stderr' };
const MOST_REFUSED_TOKENS = 4; // by the server, in a row
const PASSING = new Set(['connection_failed', 'no_token', 'shutting_down', 'internal', 'storage_failed', 'capacity', 'too_many_requests', 'request_timeout']);
const MOST_UNSENT_BYTES = 1024 * 1024;

export class Processes {
    #transport;
    #path;
    #about;

    constructor(transport, path, id) {
        this.#transport = transport;
        this.#path = `${path}/processes`;
        this.#about = terminalSubject(id);
    }

    #of(processId) {
        return `${this.#path}/${encodeURIComponent(processId)}`;
    }
    #post(path, options) {
        return this.#transport.json('POST', path, { about: this.#about, ...options });
    }

    start(program, { signal, ...options } = {}) {
        return this.#post(this.#path, { json: { ...programOf(program), ...options }, signal });
    }
    async list({ tag, signal, timeoutMs } = {}) {
        const answer = await this.#transport.json('GET', this.#path, { about: this.#about, query: { tag }, signal, timeoutMs });
        return answer.processes;
    }
    get(processId, { signal, timeoutMs } = {}) {
        return this.#transport.json('GET', this.#of(processId), { about: this.#about, signal, timeoutMs });
    }
    async signal(processId, name, { signal, timeoutMs } = {}) {
        await this.#post(`${this.#of(processId)}/signal`, { json: { signal: name }, signal, timeoutMs });
    }
    stdin(processId, data, { eof = false, signal, timeoutMs } = {}) {
        return this.#post(`${this.#of(processId)}/stdin`, { body: bytesOf(data), query: { eof: eof ? 1 : undefined }, signal, timeoutMs });
    }
    async resize(processId, { cols, rows }, { signal, timeoutMs } = {}) {
        await this.#post(`${this.#of(processId)}/resize`, { json: { cols, rows }, signal, timeoutMs });
    }
    attach(processId, { after = 0, getToken, signal } = {}) {
        const optionsOf = (offset, inner) => ({ about: this.#about, query: { after: offset }, getToken, signal: inner });
        return new Attachment(this.#transport, this.#of(processId), optionsOf, after, signal);
    }
}

/** An async iterator over the output of a process and its end; input goes the other way. */
export class Attachment extends Iteration {
    #transport;
    #path;
    #optionsOf;
    #socket = null;
    #unsent = [];
    #unsentBytes = 0;
    #isOver = false;

    constructor(transport, path, optionsOf, after, signal) {
        super((inner) => this.#frames(inner), signal);
        this.#transport = transport;
        this.#path = path;
        this.#optionsOf = optionsOf;
        /** Bytes of both streams that were read, in the order in which the server read them: the `after` of another attachment. */
        this.after = after;
    }

    write(data) {
        const bytes = bytesOf(data);
        const frames = [];
        for (let at = 0; at < bytes.length; at += FRAME_BYTES) {
            const part = bytes.subarray(at, at + FRAME_BYTES);
            const frame = new Uint8Array(part.length + 1);
            frame[0] = STDIN;
            frame.set(part, 1);
            frames.push(frame);
        }
        this.#send(...frames);
    }
    resize({ cols, rows }) {
        this.#send(JSON.stringify({ type: 'resize', cols, rows }));
    }
    signal(name) {
        this.#send(JSON.stringify({ type: 'signal', signal: name }));
    }
    eof() {
        this.#send(JSON.stringify({ type: 'eof' }));
    }
    /** Detaches; the process goes on. */
    async close() {
        await this.return();
    }

    /** What cannot be sent now is sent when the connection is there again; what was lost on a broken one is not repeated. */
    #send(...frames) {
        if (this.#isOver) throw new AtollError({ code: 'process_ended', detail: 'The process has ended, or the attachment was closed.' });
        if (this.#socket?.send(frames)) return;
        const bytes = frames.reduce((sum, { length }) => sum + length, 0);
        if (this.#unsentBytes + bytes > MOST_UNSENT_BYTES) throw connectionFailed('too much input waits for a connection');
        this.#unsent.push(...frames);
        this.#unsentBytes += bytes;
    }
    #sendWaiting(socket) {
        this.#socket = socket;
        socket.send(this.#unsent.splice(0));
        this.#unsentBytes = 0;
    }

    async *#frames(signal) {
        const backoff = new Backoff();
        let refusedTokens = 0;
        try {
            for (;;) {
                let error;
                try {
                    for await (const frame of this.#overSocket(signal, backoff)) {
                        refusedTokens = 0;
                        yield frame;
                        if (frame.type === 'exit') return;
                    }
                } catch (thrown) {
                    error = thrown;
                }
                throwIfAborted(signal);
                const isToken = this.#isAboutToken(error);
                if (isToken ? ++refusedTokens > MOST_REFUSED_TOKENS : !isPassing(error)) throw error;
                if (!isToken || refusedTokens > 1) await backoff.wait(error, signal, (...told) => this.#transport.tellRetry('GET', `${this.#path}/ws`, ...told));
            }
        } finally {
            this.#isOver = true;
        }
    }

    /** Whether another token may help; the one that was refused is forgotten. */
    #isAboutToken(error) {
        if (isFromGetToken(error)) return false;
        const { code } = error;
        const { about, getToken } = this.#optionsOf(0);
        const { access } = this.#transport;
        if (!access.canRenew(getToken) || (access.hasKey && getToken === undefined && code === 'unauthorized')) return false;
        if (!['token_expired', 'unauthorized', 'invalid_token'].includes(code)) return false;
        access.forget(about);
        return true;
    }

    async *#overSocket(signal, backoff) {
        const options = this.#optionsOf(this.after, signal);
        const socket = await this.#transport.openSocket(`${this.#path}/ws`, options, {
            onOpen: (opened) => {
                backoff.connected();
                this.#sendWaiting(opened);
            },
        });
        const abort = () => socket.close();
        if (signal.aborted) abort();
        signal.addEventListener('abort', abort);
        try {
            for (;;) {
                const { data, end } = await socket.next();
                throwIfAborted(signal);
                if (end !== undefined) throw await this.#transport.whyRefused(socket, end, this.#path, { ...options, query: {} });
                const frame = this.#read(data);
                // Which frame it refuses is not told: where that may be input, what follows would go on behind a hole.
                if (frame?.type === 'rejected' && frame.code === 'too_many_requests' && socket.pendingBytes > 0)
                    throw new AtollError({ code: 'input_refused', detail: `Input may be missing. ${frame.detail}` });
                backoff.succeeded();
                if (frame !== null) yield frame;
            }
        } finally {
            signal.removeEventListener('abort', abort);
            this.#socket = null;
            socket.close();
        }
    }

    #read(data) {
        if (typeof data === 'string') {
            const frame = JSON.parse(data);
            if (frame.type === 'dropped') this.after += frame.bytes;
            if (frame.type === 'started') this.after = frame.after;
            return frame;
        }
        const bytes = new Uint8Array(data);
        const type = STREAMS[bytes[0]];
        if (type === undefined) return null;
        this.after += bytes.length - 1;
        return { type, bytes: bytes.subarray(1) };
    }
}

function isPassing(error) {
    if (!(error instanceof AtollError)) return false;
    if (isFromGetToken(error)) return isPassingStatus(error);
    return PASSING.has(error.code) || error.status >= 500;
}
