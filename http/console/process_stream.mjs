// A process of a sandbox over a WebSocket, which may break and be opened again while the process runs: every byte of output
// once, in order, and input in the order in which it was typed. Pure but for the socket that it is given.
//     binary frames: the first byte says what the rest is, INPUT to the server, OUTPUT and ERROR from it
//     text frames: JSON with a `type`

const INPUT = 0;
const OUTPUT = 1;
const ERROR = 2;
const RETRY_MS = [200, 1000, 2000, 5000];
const MAX_WAITING_INPUT = 64 * 1024; // bytes typed while no connection is open
// Output that the screen has not taken. A browser cannot stop a WebSocket: it is closed, and goes on where it was.
const MAX_UNSHOWN = 8 * 1024 * 1024;

export class ProcessStream {
    #connect;
    #on;
    #timers;
    #socket = null;
    #run = 0;
    #received = 0; // bytes of both streams, and those that the server did not keep
    #unshown = 0;
    #isPaused = false;
    #waiting = [];
    #size = null;
    #failures = 0;
    #timer = null;
    #isOver = false;

    /**
     * `connect(after)` gives a promise of a WebSocket that is opening; it throws an error with `isFinal` where the process is
     * gone. `on`: {output(bytes, shown), dropped(count), exit({exitCode, signal}), state({name, detail})}; call `shown()` once the
     * bytes are on the screen. States: connecting, live, waiting, exited, gone. `timers`: {set(act, ms), clear(handle)}.
     */
    constructor({ connect, on, timers, after = 0 }) {
        this.#connect = connect;
        this.#on = on;
        this.#timers = timers;
        this.#received = after;
    }

    async start() {
        const run = ++this.#run;
        this.#tell('connecting');
        let socket;
        try {
            socket = await this.#connect(this.#received);
        } catch (error) {
            if (run !== this.#run) return;
            if (error.isFinal) return this.#finish('gone', error.message);
            return this.#retry(error.message);
        }
        if (run !== this.#run) return socket.close();
        this.#socket = socket;
        socket.binaryType = 'arraybuffer';
        socket.onopen = () => this.#opened(run);
        socket.onmessage = ({ data }) => {
            if (run !== this.#run) return;
            if (typeof data === 'string') this.#text(data);
            else this.#binary(new Uint8Array(data));
        };
        socket.onclose = ({ reason }) => {
            if (run !== this.#run) return;
            this.#socket = null;
            if (this.#isPaused) return;
            this.#retry(parsed(reason)?.detail ?? '');
        };
    }

    stop() {
        this.#isOver = true;
        ++this.#run;
        this.#timers.clear(this.#timer);
        this.#socket?.close();
        this.#socket = null;
    }

    /** Input for the process, as bytes. */
    send(bytes) {
        if (this.#isOver) return;
        if (this.#socket?.readyState === 1) return this.#sendInput(bytes);
        const size = this.#waiting.reduce((sum, one) => sum + one.length, 0);
        if (size + bytes.length <= MAX_WAITING_INPUT) this.#waiting.push(bytes);
    }

    resize(cols, rows) {
        if (this.#size?.cols === cols && this.#size.rows === rows) return;
        this.#size = { cols, rows };
        this.#sendSize();
    }

    /** Tries again at once, as when the network is back. */
    hurry() {
        if (this.#timer === null || this.#isOver) return;
        this.#timers.clear(this.#timer);
        this.#timer = null;
        this.start();
    }

    #opened(run) {
        if (run !== this.#run) return;
        this.#failures = 0;
        this.#tell('live');
        this.#sendSize();
        for (const bytes of this.#waiting.splice(0)) this.#sendInput(bytes);
    }

    #sendInput(bytes) {
        const frame = new Uint8Array(bytes.length + 1);
        frame[0] = INPUT;
        frame.set(bytes, 1);
        this.#socket.send(frame);
    }

    #sendSize() {
        if (this.#size !== null && this.#socket?.readyState === 1) this.#socket.send(JSON.stringify({ type: 'resize', ...this.#size }));
    }

    #binary(frame) {
        if (frame.length === 0 || (frame[0] !== OUTPUT && frame[0] !== ERROR)) return;
        const bytes = frame.subarray(1);
        this.#received += bytes.length;
        this.#unshown += bytes.length;
        this.#on.output(bytes, () => this.#shown(bytes.length));
        if (this.#unshown <= MAX_UNSHOWN) return;
        this.#isPaused = true;
        ++this.#run; // what still comes is asked for again
        this.#socket?.close();
        this.#socket = null;
    }

    #shown(count) {
        this.#unshown -= count;
        if (!this.#isPaused || this.#unshown > MAX_UNSHOWN / 8 || this.#isOver) return;
        this.#isPaused = false;
        this.start();
    }

    #text(data) {
        const frame = parsed(data);
        if (frame === null) return;
        if (frame.type === 'dropped') {
            const count = Number(frame.bytes ?? 0);
            if (Number.isSafeInteger(count) && count > 0) this.#received += count;
            this.#on.dropped(count);
        } else if (frame.type === 'exit') {
            this.#on.exit({ exitCode: frame.exitCode ?? null, signal: frame.signal ?? null });
            this.#finish('exited', '');
        }
    }

    #finish(name, detail) {
        this.stop();
        this.#tell(name, detail);
    }

    #retry(detail) {
        if (this.#isOver) return;
        this.#tell('waiting', detail);
        this.#timer = this.#timers.set(
            () => {
                this.#timer = null;
                this.start();
            },
            RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)],
        );
    }

    #tell(name, detail = '') {
        this.#on.state({ name, detail });
    }
}

function parsed(text) {
    try {
        const value = JSON.parse(text);
        return value !== null && typeof value === 'object' ? value : null;
    } catch {
        return null;
    }
}
