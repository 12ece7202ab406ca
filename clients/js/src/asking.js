// Messages and interrupts over the WebSockets of a conversation, for clients that have a token and no key. A message that got
// no answer is sent again on the next connection; its idempotencyKey keeps it from starting a second turn.
import { AtollError, connectionFailed } from './errors.js';
import { throwIfAborted } from './waiting.js';

/** An id that no other client makes. */
export function uniqueId() {
    const bytes = new Uint8Array(16);
    // Node 18 has no global crypto. The id is no secret.
    if (globalThis.crypto?.getRandomValues) globalThis.crypto.getRandomValues(bytes);
    else bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export class Hub {
    /** The seq of the newest event that was seen of this conversation. */
    seen = 0;
    /** Of the log that it is of; empty: not known. */
    epoch = '';
    #sockets = new Set();
    #asked = new Map();
    #connect;
    #connecting = null;

    /** `connect(signal)` keeps a WebSocket of the conversation open until the signal is aborted. */
    constructor(connect) {
        this.#connect = connect;
    }

    /** Sends a frame; resolves with its answer `accepted`. Throws AtollError with the code of `rejected`. */
    ask(frame, { signal } = {}) {
        throwIfAborted(signal);
        const id = uniqueId();
        const whole = { ...frame, id };
        return new Promise((done, fail) => {
            const end = () => {
                this.#asked.delete(id);
                signal?.removeEventListener('abort', abort);
                if (this.#asked.size === 0) this.#connecting?.abort();
            };
            const abort = () => {
                end();
                fail(signal.reason);
            };
            signal?.addEventListener('abort', abort);
            const settle = (settled) => (value) => {
                end();
                settled(value);
            };
            const asked = { frame: whole, done: settle(done), fail: settle(fail), isSent: false };
            this.#asked.set(id, asked);
            const open = [...this.#sockets].find((socket) => socket.isOpen);
            if (open === undefined) this.#needSocket();
            else this.#send(open, asked);
        });
    }

    add(socket) {
        this.#sockets.add(socket);
        for (const asked of this.#asked.values()) this.#send(socket, asked);
    }
    remove(socket) {
        this.#sockets.delete(socket);
        for (const asked of [...this.#asked.values()]) {
            // Sent again it might stop a later turn.
            if (asked.isSent && asked.frame.type !== 'message') asked.fail(connectionFailed('the connection broke before the answer'));
        }
        if (this.#asked.size > 0) this.#needSocket();
    }

    /** Takes an answer; false if the frame is something else. */
    take(data) {
        if (typeof data !== 'string' || !/"type":"(accepted|rejected)"/.test(data.slice(0, 200))) return false;
        const frame = JSON.parse(data);
        if (frame.type !== 'accepted' && frame.type !== 'rejected') return false;
        const asked = this.#asked.get(frame.id);
        if (frame.type === 'accepted') asked?.done(frame);
        else asked?.fail(new AtollError(frame));
        return true;
    }

    #send(socket, asked) {
        asked.isSent = socket.send(JSON.stringify(asked.frame)) || asked.isSent;
    }

    /** A connection for what is asked, beside those of iterations, which reconnect only while they are read. */
    #needSocket() {
        if (this.#connecting !== null) return;
        const stop = (this.#connecting = new AbortController());
        const failAll = (error) => {
            for (const asked of [...this.#asked.values()]) asked.fail(error);
        };
        this.#connect(stop.signal)
            .then(() => failAll(new AtollError({ code: 'conversation_ended' })))
            .catch((error) => {
                if (!stop.signal.aborted) failAll(error);
            })
            .finally(() => {
                this.#connecting = null;
                if (this.#asked.size > 0) this.#needSocket();
            });
    }
}
