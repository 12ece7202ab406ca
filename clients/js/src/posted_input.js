// The input of a process where there is no WebSocket: POSTs, each sent once the one before it has its answer, so that the order stays.
import { isFromGetToken } from './access.js';
import { AtollError } from './errors.js';

// A program that reads slowly has to take a request's bytes within the 5 minutes for which Node's fetch waits for an answer.
const REQUEST_BYTES = 256 * 1024;
const CLOSING_MS = 2000;
const CTRL_D = Uint8Array.of(4);

export class PostedInput {
    #post;
    #waiting = [];
    #connection = null;
    #isPosting = false;
    #stop = new AbortController();

    /** `post(action, options)` sends a request to the route `action` of the process. */
    constructor(post) {
        this.#post = post;
    }

    /**
     * Posts the frames that wait and those that come, until suspend(). `onRefused(frame)` is told of a frame that changed nothing,
     * `onFailed(error)` of an error that ends the connection: the frame that was posted may be lost, those that wait are not.
     */
    open({ isTerminal, onRefused, onFailed }) {
        this.#connection = { isTerminal, onRefused, onFailed };
        this.#run();
    }
    /** The connection has ended: the frames that wait stay for the next one. */
    suspend() {
        this.#connection = null;
        this.close();
        this.#stop = new AbortController();
    }
    /** Takes frames in the form that a WebSocket would send. */
    send(frames) {
        for (const frame of frames) this.#waiting.push(frame);
        this.#run();
        return true;
    }
    /** The requests that go on, and those that wait unless it was suspended, have two seconds left. */
    close() {
        const stop = this.#stop;
        if (this.#isPosting) setTimeout(() => stop.abort(), CLOSING_MS).unref?.();
    }

    async #run() {
        if (this.#isPosting) return;
        this.#isPosting = true;
        while (this.#connection !== null && this.#waiting.length > 0) {
            const [action, options] = this.#next();
            const { signal } = this.#stop;
            try {
                await this.#post(action, { ...options, signal });
            } catch (error) {
                if (!signal.aborted) this.#judge(action, error);
            }
        }
        this.#isPosting = false;
    }

    /** The next request: frames of bytes that stand together, or one text frame. */
    #next() {
        const [first] = this.#waiting;
        if (typeof first === 'string') {
            this.#waiting.shift();
            const { type, ...json } = JSON.parse(first);
            if (type !== 'eof') return [type, { json }];
            return ['stdin', this.#connection.isTerminal ? { body: CTRL_D } : { body: new Uint8Array(0), query: { eof: 1 } }];
        }
        const parts = [];
        let size = 0;
        while (this.#waiting.length > 0 && typeof this.#waiting[0] !== 'string' && (size === 0 || size + this.#waiting[0].length <= REQUEST_BYTES)) {
            const part = this.#waiting.shift().subarray(1);
            parts.push(part);
            size += part.length;
        }
        return ['stdin', { body: joined(parts, size) }];
    }

    #judge(action, error) {
        if (this.#connection === null) return;
        const { onRefused, onFailed } = this.#connection;
        const { status, code, detail } = error;
        const isAnswer = error instanceof AtollError && !isFromGetToken(error) && status >= 400 && status !== 401 && status !== 403;
        // The server does not tell how much of it was taken.
        const isHole = action === 'stdin' && (status === 408 || status === 429 || status >= 500);
        if (isAnswer && !isHole) return onRefused({ type: 'rejected', code, detail });
        this.suspend();
        if (isAnswer) this.#waiting.length = 0;
        onFailed(isAnswer ? inputRefused(detail) : error);
    }
}

/** The end of an attachment behind whose input there would be a hole. */
export function inputRefused(detail) {
    return new AtollError({ code: 'input_refused', detail: `Input may be missing. ${detail}` });
}

function joined(parts, size) {
    const all = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
        all.set(part, at);
        at += part.length;
    }
    return all;
}
