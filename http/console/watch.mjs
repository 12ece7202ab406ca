// Tells which folders of a workspace may have changed: by the server's watch and, where that does not cover all of them, by
// looking again and again, too. `changed(folders)`: hrefs of folders, or null for any of them. Not here: reading the folders.
import { SseParser } from './sse.mjs';
import { parentOf, soundHref } from './paths.mjs';

const GATHER_MS = 150; // changes that come together are told together
const POLL_MS = 3000;
const RETRY_MS = [1000, 2000, 5000, 15_000];
const MAX_FOLDERS = 200; // of one telling; more are "any"

/** The folders in which the frame of a watch says that something changed; null: in any. */
export function foldersOf(frame) {
    if (frame.type === 'paused' || frame.type === 'incomplete' || frame.type === 'stream_closed') return [];
    const named = (frame.changes ?? []).flatMap((change) => [change?.href, change?.toHref]);
    const paths = named.filter((href) => href !== undefined).map(soundHref);
    if (paths.length === 0 || paths.includes(null)) return null;
    // A path that changed may be a folder, whose own entries may have changed, too.
    return [...new Set(paths.flatMap((path) => [parentOf(path), path]))];
}

export class Watch {
    #open;
    #changed;
    #mayPoll;
    #timers;
    #abort = new AbortController();
    #waiting = new Set();
    #gather = null;
    #timer = null;
    #pollTimer = null;
    #polls = false;
    #failures = 0;

    /**
     * `open(signal)` gives the Response of the watch. `mayPoll()`: whether looking costs nothing, as of a sandbox that
     * runs and a page that is seen. `timers`: {set(act, ms), clear(handle)}.
     */
    constructor({ open, changed, mayPoll, timers }) {
        this.#open = open;
        this.#changed = changed;
        this.#mayPoll = mayPoll;
        this.#timers = timers;
    }

    start() {
        this.#follow();
    }

    stop() {
        this.#abort.abort();
        this.#timers.clear(this.#gather);
        this.#timers.clear(this.#timer);
        this.#timers.clear(this.#pollTimer);
    }

    async #follow() {
        const { signal } = this.#abort;
        try {
            const response = await this.#open(signal);
            this.#failures = 0;
            await this.#read(response);
        } catch (error) {
            if (signal.aborted || error.status === 401) return;
            if (error.status === 404) return; // the sandbox is gone
        }
        if (signal.aborted) return;
        const wait = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)];
        this.#timer = this.#timers.set(() => this.#follow(), wait);
    }

    async #read(response) {
        const parser = new SseParser((frame) => {
            const value = JSON.parse(frame.data);
            this.#note(foldersOf(value));
            // The sandbox cannot watch some folders: polling finds their changes.
            if (value.type === 'incomplete' && !this.#polls) this.#poll();
        });
        const reader = response.body.getReader();
        const decoder = new TextDecoder();
        for (;;) {
            const { value, done } = await reader.read();
            if (done || this.#abort.signal.aborted) return;
            parser.feed(decoder.decode(value, { stream: true }));
        }
    }

    #poll() {
        this.#polls = true;
        this.#pollTimer = this.#timers.set(() => {
            if (this.#mayPoll()) this.#changed(null);
            this.#poll();
        }, POLL_MS);
    }

    #note(folders) {
        if (folders === null || this.#waiting.size > MAX_FOLDERS) this.#waiting.add(null);
        else for (const folder of folders) this.#waiting.add(folder);
        if (this.#gather !== null || this.#waiting.size === 0) return;
        this.#gather = this.#timers.set(() => {
            this.#gather = null;
            const all = this.#waiting;
            this.#waiting = new Set();
            this.#changed(all.has(null) ? null : [...all]);
        }, GATHER_MS);
    }
}
