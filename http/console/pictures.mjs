// Pictures that turns wrote into the workspace: found by their names and times, read, and given as data to show. Pure but for
// the files that it is given.
import { pictureOf } from './content.mjs';

const NAMES = /\.(png|jpe?g|gif|webp|svg)$/i;
const IGNORED = /(^|\/)(\.|node_modules\/)/;
const MAX_BYTES = 1024 * 1024; // of one picture
const MAX_OF_TURN = 4;
const MAX_READ = 12; // in one look, the newest
const MAX_TURNS = 100;
// A file's time is that of the kernel's last tick; a turn's end is told a little after its last write.
const SLACK_MS = 50;

/**
 * Which pictures belong to which turn: [{turn, entry}], the newest first. `entries`: of the workspace; `turns`: name -> {from, to}
 * in milliseconds, `to` null while it is open.
 */
export function picturesOf(entries, turns) {
    const counts = new Map();
    const found = [];
    const isMeant = ({ type, path, size }) => type === 'file' && size > 0 && size <= MAX_BYTES && NAMES.test(path) && !IGNORED.test(path);
    const newest = entries.filter(isMeant).sort((a, b) => Date.parse(b.mtime) - Date.parse(a.mtime));
    for (const entry of newest) {
        const time = Date.parse(entry.mtime);
        const [turn] = [...turns].find(([, { from, to }]) => time >= from - SLACK_MS && time <= (to ?? Infinity) + SLACK_MS) ?? [];
        if (turn === undefined) continue;
        counts.set(turn, (counts.get(turn) ?? 0) + 1);
        if (counts.get(turn) <= MAX_OF_TURN) found.push({ turn, entry });
    }
    return found.slice(0, MAX_READ);
}

export class Pictures {
    #files;
    #show;
    #mayLook;
    #signal;
    #turns = new Map();
    #known = new Set(); // turn, path and ETag
    #isLooking = false;
    #isAsked = false;

    /**
     * `files`: {top(signal), read(path, limit, {signal})}. `show(turn, {path, type, data})`. `mayLook()`: whether the sandbox is known to
     * run, since reading files starts one that rests.
     */
    constructor(files, show, mayLook, signal) {
        this.#files = files;
        this.#show = show;
        this.#mayLook = mayLook;
        this.#signal = signal;
    }

    begin(turn, at) {
        this.#turns.set(turn, { from: Date.parse(at), to: null });
        if (this.#turns.size > MAX_TURNS) this.#turns.delete(this.#turns.keys().next().value);
    }
    /** Its pictures are shown by the next look that may be. */
    end(turn, at) {
        if (!this.#turns.has(turn)) return;
        this.#turns.get(turn).to = Date.parse(at);
        this.#isAsked = true;
    }

    /** The log begins anew, and so does the page. */
    reset() {
        this.#turns.clear();
        this.#known.clear();
        this.#isAsked = false;
    }

    /**
     * Looks for those of turns that have ended since the last look, once at a time, and never without such a turn: each request is activity of the
     * conversation. Errors are left to who asks for files next.
     */
    async look() {
        if (this.#isLooking) return;
        this.#isLooking = true;
        while (this.#isAsked && !this.#signal.aborted && this.#mayLook()) {
            this.#isAsked = false;
            try {
                await this.#lookOnce();
            } catch {
                break;
            }
        }
        this.#isLooking = false;
    }

    async #lookOnce() {
        const found = picturesOf(await this.#files.top(this.#signal), this.#turns);
        for (const { turn, entry } of found.reverse()) {
            const key = `${turn} ${entry.etag} ${entry.path}`;
            if (this.#known.has(key)) continue;
            if (!this.#mayLook()) return void (this.#isAsked = true);
            this.#known.add(key);
            const { bytes, isWhole } = await this.#files.read(entry.href, MAX_BYTES, { signal: this.#signal });
            if (this.#signal.aborted) return;
            const picture = pictureOf(entry.path, bytes, isWhole);
            if (picture !== null) this.#show(turn, { path: entry.path, ...picture });
        }
    }
}
