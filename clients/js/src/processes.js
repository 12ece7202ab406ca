// Processes that live on unattended, and the attachment to one: its output from any byte on, over connections that break.
import { isFromGetToken } from './access.js';
import { bytesOf, Output, withOutputs } from './bytes.js';
import { AtollError, connectionFailed, isPassingStatus } from './errors.js';
import { inputRefused, PostedInput } from './posted_input.js';
import { programOf } from './sandbox.js';
import { terminalSubject } from './transport.js';
import { Backoff, Deadline, Iteration, throwIfAborted } from './waiting.js';

const STDIN = 0;
// Each frame counts as a request, of which a key has so many a second; a slow connection needs time for a large one. The server takes 1 MiB at most.
const FRAME_BYTES = 256 * 1024;
const STREAMS = { 1: 'stdout', 2: 'stderr' };
const MOST_REFUSED_TOKENS = 4; // by the server, in a row
const PASSING = new Set([
    'connection_failed', 'no_token', 'shutting_down', 'internal', 'storage_failed', 'bridge_failed', 'capacity', 'too_many_requests', 'too_many_streams', 'request_timeout',
]);
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
    async output(processId, { after, signal, timeoutMs } = {}) {
        return withOutputs(await this.#transport.json('GET', `${this.#of(processId)}/output`, { about: this.#about, query: { after }, signal, timeoutMs }));
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
    attach(processId, { after = 0, transport = this.#transport.hasWebSocket ? 'websocket' : 'sse', getToken, signal } = {}) {
        const optionsOf = (offset, inner) => ({ about: this.#about, query: { after: offset }, getToken, signal: inner });
        return new Attachment(this.#transport, this.#of(processId), optionsOf, { after, isSocket: transport === 'websocket', signal });
    }
}

/** An async iterator over the output of a process and its end; input goes the other way. */
export class Attachment extends Iteration {
    #transport;
    #path;
    #optionsOf;
    #isSocket;
    #socket = null;
    #posted = null;
    #unsent = [];
    #unsentBytes = 0;
    #isOver = false;

    constructor(transport, path, optionsOf, { after, isSocket, signal }) {
        super((inner) => this.#frames(inner), signal);
        this.#transport = transport;
        this.#path = path;
        this.#optionsOf = optionsOf;
        this.#isSocket = isSocket;
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

    /** Sends frames, or keeps them until the connection is there again. Frames that were lost on a broken connection are not repeated. */
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
        const [connect, route] = this.#isSocket ? [this.#overSocket, 'ws'] : [this.#overFetch, 'output'];
        const backoff = new Backoff();
        let refusedTokens = 0;
        try {
            for (;;) {
                let error;
                try {
                    for await (const frame of connect.call(this, signal, backoff)) {
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
                if (!isToken || refusedTokens > 1) await backoff.wait(error, signal, (...told) => this.#transport.tellRetry('GET', `${this.#path}/${route}`, ...told));
            }
        } finally {
            this.#isOver = true;
            this.#posted?.close();
        }
    }

    /** True if another token may help; the refused one is forgotten then. */
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
                    throw inputRefused(frame.detail);
                backoff.succeeded();
                if (frame !== null) yield frame;
            }
        } finally {
            signal.removeEventListener('abort', abort);
            this.#socket = null;
            socket.close();
        }
    }

    async *#overFetch(signal, backoff) {
        const run = new Deadline(Infinity, signal);
        const refused = [];
        let wake = () => {};
        const onRefused = (frame) => {
            refused.push(frame);
            wake();
        };
        const output = this.#transport.live(`${this.#path}/output`, { ...this.#optionsOf(this.after, run.signal), onOpen: () => backoff.connected() });
        try {
            for (let next = output.next(); ; ) {
                const told = await new Promise((done, fail) => {
                    wake = () => done(null);
                    if (refused.length > 0) wake();
                    next.then(done, fail);
                });
                while (refused.length > 0) yield refused.shift();
                if (told === null) continue;
                if (told.done) throw connectionFailed('the stream ended before the process did');
                const frame = this.#shown(told.value);
                backoff.succeeded();
                if (frame.type === 'started') this.#openPosted({ isTerminal: frame.pty, onRefused, onFailed: (error) => run.end(error) });
                yield frame;
                next = output.next();
            }
        } catch (error) {
            if (!signal.aborted) this.#posted?.suspend();
            throw error;
        } finally {
            this.#socket = null;
            run.end(new AtollError({ code: 'detached' }));
            run.release();
            output.return().catch(() => {});
        }
    }
    #openPosted(connection) {
        const { about, getToken } = this.#optionsOf(0);
        this.#posted ??= new PostedInput((action, options) => this.#transport.json('POST', `${this.#path}/${action}`, { about, getToken, again: 'refused', ...options }));
        this.#posted.open(connection);
        this.#sendWaiting(this.#posted);
    }

    /** A binary or a text frame of a WebSocket; null: of no kind that is known. */
    #read(data) {
        if (typeof data === 'string') return this.#counted(JSON.parse(data));
        const bytes = new Uint8Array(data);
        const type = STREAMS[bytes[0]];
        return type === undefined ? null : this.#counted({ type, bytes: bytes.subarray(1) });
    }
    /** A frame of an event stream. */
    #shown({ type, text, base64, ...more }) {
        return this.#counted(type === 'stdout' || type === 'stderr' ? { type, bytes: new Output(text, base64).bytes } : { type, ...more });
    }
    /** The frame, once `after` counts it. */
    #counted(frame) {
        if (frame.type === 'started') this.after = frame.after;
        else if (frame.type === 'dropped') this.after += frame.bytes;
        else this.after += frame.bytes?.length ?? 0;
        return frame;
    }
}

function isPassing(error) {
    if (!(error instanceof AtollError)) return false;
    if (isFromGetToken(error)) return isPassingStatus(error);
    return PASSING.has(error.code) || error.status >= 500;
}
