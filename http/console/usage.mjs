// The usage of a sandbox, from samples of the server: words, shares of the limits, a short history. And when to ask for the
// next sample. Pure: the request and the timer are passed in.

export const HISTORY = 60; // samples
export const PERIOD_MS = 2000;
const PERIOD_AFTER_FAILURE_MS = 10_000;
const HIGH = 0.8;
const FULL = 0.95;

/** "0 B", "4.2 MB", "2 GB": powers of 1024, as limits are given. */
export function bytesText(bytes) {
    const units = ['B', 'KB', 'MB', 'GB', 'TB'];
    let unit = 0;
    let value = bytes;
    while (value >= 1024 && unit < units.length - 1) {
        value /= 1024;
        ++unit;
    }
    const rounded = value < 10 && unit > 0 ? Math.round(value * 10) / 10 : Math.round(value);
    return `${rounded} ${units[unit]}`;
}

function toneOf(share) {
    if (share === null || share < HIGH) return '';
    return share < FULL ? 'warn' : 'bad';
}

const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

/** A use compared with its limit: {text, share, tone}; a use of null is not known. */
function measure(used, limit, words) {
    if (!isNumber(used)) return { text: 'not known', share: null, tone: '' };
    const share = isNumber(limit) && limit > 0 ? Math.min(1, used / limit) : null;
    return { text: words(used, limit), share, tone: toneOf(share) };
}

export class Usage {
    #last = null; // the sample before
    #shares = { memory: [], cpu: [], processes: [], disk: [] };

    /** Takes a sample as the server gave it: {memory, cpu, processes, disk}, each {text, share, tone}. */
    add(sample) {
        const now = {
            memory: measure(sample.memory.usedBytes, sample.memory.limitBytes, (used, limit) => `${bytesText(used)} of ${bytesText(limit)}`),
            cpu: this.#cpu(sample),
            processes: measure(sample.processes, sample.maxProcesses, (used, limit) => `${used} of ${limit}`),
            disk: measure(sample.disk.usedBytes, sample.disk.limitBytes, (used, limit) => `${bytesText(used)} of ${bytesText(limit)}`),
        };
        for (const [name, { share }] of Object.entries(now)) {
            const shares = this.#shares[name];
            shares.push(share);
            if (shares.length > HISTORY) shares.shift();
        }
        this.#last = sample;
        return now;
    }

    // The counter begins anew with each generation.
    #cpu(sample) {
        const before = this.#last;
        const spent = sample.cpu.usageUs - before?.cpu.usageUs;
        const passed = (Date.parse(sample.at) - Date.parse(before?.at)) * 1000;
        const known = isNumber(sample.cpu.usageUs) && isNumber(before?.cpu.usageUs) && before.generation === sample.generation;
        if (!known || !(passed > 0) || spent < 0) return { text: 'not known yet', share: null, tone: '' };
        const percent = (100 * spent) / passed;
        const limit = sample.cpu.limitPercent;
        // A sandbox may use all of its processor share.
        return { text: `${Math.round(percent)} % of ${limit} %`, share: Math.min(1, percent / limit), tone: '' };
    }

    /** The shares in the newest HISTORY samples, the oldest first; null where a share was not known. */
    shares(name) {
        return this.#shares[name];
    }
}

const NOTABLE = 0.5; // of a limit
const CALM_SAMPLES = 15;

/** Decides when graphs are worth their place: from the moment one passes half of its limit until none has for half a minute. */
export class Notice {
    #calm = CALM_SAMPLES;

    /** `now`: as Usage.add() gives it. True: they are shown. */
    add(now) {
        const isNotable = Object.values(now).some(({ share }) => share !== null && share >= NOTABLE);
        this.#calm = isNotable ? 0 : this.#calm + 1;
        return this.#calm < CALM_SAMPLES;
    }
}

/**
 * The corners of an area under `shares` (0 to 1) in a box, the newest at its right edge, for an SVG polygon. What is not
 * known is on the ground.
 */
export function areaOf(shares, width, height) {
    if (shares.length === 0) return '';
    const step = width / (HISTORY - 1);
    const round = (number) => Math.round(number * 10) / 10;
    const left = width - step * (shares.length - 1);
    const corners = shares.map((share, index) => [left + step * index, height - height * (share ?? 0)]);
    corners.push([width, height]);
    corners.unshift([left, height]);
    return corners.map(([x, y]) => `${round(x)},${round(y)}`).join(' ');
}

/**
 * Asks again and again, one request at a time, as long as it is told to and somebody can see it.
 * `ask()` gives a promise, `tell(sample)` gets what it gave, `isSeen()` says whether anyone looks, `timers` {set, clear}.
 */
export class Poller {
    #on;
    #timer = null;
    #runs = false;
    #asking = false;

    constructor(on) {
        this.#on = on;
    }

    start() {
        if (this.#runs) return;
        this.#runs = true;
        this.#next(0);
    }

    stop() {
        this.#runs = false;
        this.#clear();
    }

    /** Call this when the answer of isSeen() has changed. */
    look() {
        this.#clear();
        if (this.#runs) this.#next(0);
    }

    #clear() {
        if (this.#timer !== null) this.#on.timers.clear(this.#timer);
        this.#timer = null;
    }

    #next(wait) {
        if (this.#asking || this.#timer !== null || !this.#on.isSeen()) return;
        this.#timer = this.#on.timers.set(() => {
            this.#timer = null;
            this.#ask();
        }, wait);
    }

    async #ask() {
        let wait = PERIOD_MS;
        this.#asking = true;
        try {
            const sample = await this.#on.ask();
            if (this.#runs) this.#on.tell(sample);
        } catch {
            wait = PERIOD_AFTER_FAILURE_MS;
        }
        this.#asking = false;
        if (this.#runs) this.#next(wait);
    }
}
