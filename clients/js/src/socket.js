// One WebSocket as a queue of what it received and one end. It never throws and never reports an error by itself.
import { AtollError, connectionFailed } from './errors.js';

const OPEN = 1;
const CLOSING_MS = 2000;
// What may wait for a reader that is slow. Beyond that the socket is closed; the reader goes on later from where it is.
const MOST_WAITING = 20_000;
const MOST_WAITING_BYTES = 16 * 1024 * 1024;

const CODES = { 4401: 'token_expired', 4403: 'token_mismatch', 4404: 'conversation_ended', 4410: 'log_replaced' };
const BROKEN_BY_CLIENT = new Set([1002, 1003, 1007, 1009]);

/** Why a WebSocket was closed: the reason's JSON, else what its code means. */
function endOf({ code, reason }) {
    let told = {};
    try {
        told = JSON.parse(reason) ?? {};
    } catch {
        // The connection broke, or something between here and the server closed it.
    }
    const name = told.code ?? CODES[code] ?? (BROKEN_BY_CLIENT.has(code) ? 'protocol_error' : 'connection_failed');
    if (name === 'connection_failed') return connectionFailed(`the WebSocket was closed with ${code}`);
    return new AtollError({ code: name, detail: told.detail ?? `the WebSocket was closed with ${code}`, logEpoch: told.logEpoch });
}

export class Socket {
    #socket;
    #waiting = [];
    #waitingBytes = 0;
    #end = null;
    #wake = null;

    wasOpen = false;

    /**
     * `onOpen` may be left out, and `headers`, which Node's WebSocket and that of `ws` can send.
     */
    constructor(WebSocket, url, { headers, onOpen } = {}) {
        if (typeof WebSocket !== 'function') {
            throw new TypeError('There is no WebSocket here: Node has one from 22 on. In Node 18 or 20 give the client one, for example ' +
                'that of the package "ws": new Atoll({…, WebSocket}).');
        }
        const socket = (this.#socket = headers === undefined ? new WebSocket(url) : new WebSocket(url, { headers }));
        socket.binaryType = 'arraybuffer';
        socket.onopen = () => this.#guard(() => {
            this.wasOpen = true;
            onOpen?.(this);
        });
        socket.onmessage = ({ data }) => this.#guard(() => this.#take(data));
        socket.onerror = (event) => {
            // Some end without a close event if they never opened.
            const cause = event?.error;
            setTimeout(() => this.#ended(connectionFailed(`the WebSocket failed${cause?.message ? `: ${cause.message}` : ''}`, cause)), 0);
        };
        socket.onclose = (event) => this.#ended(endOf(event));
    }

    get isOpen() {
        return this.#end === null && this.#socket.readyState === OPEN;
    }

    /** Sends a frame; false if the socket is not open. */
    send(data) {
        if (!this.isOpen) return false;
        this.#socket.send(data);
        return true;
    }

    /** The next frame, or {end} with an AtollError after the last one. */
    async next() {
        while (this.#waiting.length === 0) {
            if (this.#end !== null) return { end: this.#end };
            await new Promise((wake) => (this.#wake = wake));
        }
        const data = this.#waiting.shift();
        this.#waitingBytes -= data.length ?? data.byteLength;
        return { data };
    }

    close() {
        this.#ended(connectionFailed('the WebSocket was closed here'));
    }

    /** What `run` throws (a callback of the user may) ends the socket, and next() tells it. */
    #guard(run) {
        try {
            run();
        } catch (error) {
            this.#ended(error);
        }
    }
    #take(data) {
        if (this.#end !== null) return;
        this.#waiting.push(data);
        this.#waitingBytes += data.length ?? data.byteLength;
        if (this.#waiting.length > MOST_WAITING || this.#waitingBytes > MOST_WAITING_BYTES) this.close();
        this.#wakeUp();
    }
    #ended(end) {
        if (this.#end !== null) return;
        this.#end = end;
        this.#shut();
        this.#wakeUp();
    }
    #shut() {
        const socket = this.#socket;
        try {
            socket.close(1000);
        } catch {
            // It has never been open.
        }
        // `ws` waits long for the other end's close frame.
        if (typeof socket.terminate !== 'function' || socket.readyState === 3) return;
        const late = setTimeout(() => socket.terminate(), CLOSING_MS);
        socket.onclose = () => clearTimeout(late);
        late.unref?.();
    }
    #wakeUp() {
        this.#wake?.();
        this.#wake = null;
    }
}
