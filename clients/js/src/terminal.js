// A terminal: a process on a pty, with callbacks as terminal emulators want them.

import { pause } from './waiting.js';

const HANGUP_MS = 1000;
const SHELL = ['bash', '-il'];

/** Starts a shell, or `program`, on a pty of `cols` by `rows` and attaches to it. */
export async function openTerminal(processes, { cols = 80, rows = 24, program = SHELL, cwd, env, tag, transport, getToken, signal } = {}) {
    const options = Object.fromEntries(Object.entries({ cwd, env, tag }).filter(([, value]) => value !== undefined));
    const info = await processes.start(program, { ...options, pty: { cols, rows }, signal });
    return new Terminal(processes, info.processId, processes.attach(info.processId, { transport, getToken, signal }));
}

const MOST_KEPT_BYTES = 1024 * 1024;

/** Calls of what was registered; the end of what came before the first is kept for it: 1 MiB, as the server keeps of the process. */
class Listeners {
    #calls = new Set();
    #kept = [];
    #keptBytes = 0;

    add(call) {
        this.#calls.add(call);
        this.#keptBytes = 0;
        for (const value of this.#kept.splice(0)) call(value);
        return () => this.#calls.delete(call);
    }
    #keep(value) {
        this.#kept.push(value);
        this.#keptBytes += value.length ?? 0;
        while (this.#keptBytes > MOST_KEPT_BYTES) this.#keptBytes -= this.#kept.shift().length;
    }
    tell(value) {
        if (this.#calls.size === 0) this.#keep(value);
        for (const call of [...this.#calls]) {
            try {
                call(value);
            } catch (error) {
                // An EventTarget does the same: the program hears of the error, and the other listeners go on.
                setTimeout(() => {
                    throw error;
                }, 0);
            }
        }
    }
}

export class Terminal {
    #processes;
    #attachment;
    #data = new Listeners();
    #exit = new Listeners();
    #isOver = false;
    #reading;

    constructor(processes, processId, attachment) {
        this.#processes = processes;
        this.#attachment = attachment;
        this.processId = processId;
        this.#reading = this.#read();
    }

    /** `call(bytes)` for all output; returns what ends that. */
    onData(call) {
        return this.#data.add(call);
    }
    /** `call({exitCode, signal} | {error})` once, when the process has ended or cannot be reached any more. */
    onExit(call) {
        return this.#exit.add(call);
    }
    write(data) {
        if (!this.#isOver) this.#attachment.write(data);
    }
    resize({ cols, rows }) {
        if (!this.#isOver) this.#attachment.resize({ cols, rows });
    }
    /** Lets the process go on without this terminal. */
    async detach() {
        await this.#attachment.close();
        await this.#reading;
    }
    /** Hangs up: SIGHUP, and SIGKILL a second later if the process goes on. bash may miss a SIGHUP while it makes its prompt. */
    async close({ signal } = {}) {
        for (const name of ['SIGHUP', 'SIGKILL']) {
            if (this.#isOver) break;
            await this.#kill(name, signal);
            await this.#endWithin(HANGUP_MS);
        }
        await this.detach();
    }

    async #kill(name, signal) {
        await this.#processes.signal(this.processId, name, { signal }).catch((error) => {
            if (error.code !== 'process_ended' && error.code !== 'not_found') throw error;
        });
    }
    async #endWithin(ms) {
        const stop = new AbortController();
        await Promise.race([this.#reading, pause(ms, stop.signal).catch(() => {})]);
        stop.abort();
    }

    async #read() {
        let end = null;
        try {
            for await (const frame of this.#attachment) {
                if (frame.bytes instanceof Uint8Array) this.#data.tell(frame.bytes);
                else if (frame.type === 'exit') end = frame;
            }
        } catch (error) {
            end = { error };
        }
        this.#isOver = true;
        if (end !== null) this.#exit.tell(end);
    }
}
