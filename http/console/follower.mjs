// Follows a conversation's log over connections that come and go: every event once, in order. Pure: the transport,
// the clock and chance are given. Not here: bytes, the DOM.

export const MIN_DELAY_MS = 500;
export const MAX_DELAY_MS = 10_000;
// Three heartbeats of the server: a connection that says nothing for so long is dead.
export const SILENCE_MS = 45_000;

/** How long to wait before the attempt after `failures` failed ones; `random` in [0, 1). */
export function delayOf(failures, random) {
    const full = Math.min(MAX_DELAY_MS, MIN_DELAY_MS * 2 ** Math.min(failures, 16));
    return Math.max(MIN_DELAY_MS, Math.round(full * (0.5 + random / 2)));
}

// Another key may help, no other try with this one.
const ABOUT_KEY = ['unauthorized', 'invalid_authorization', 'invalid_key'];

export const isAboutKey = (code) => ABOUT_KEY.includes(code);

/**
 * The reaction to the end of a connection, by the server's code:
 * `retry` as soon as the backoff allows, `renew` at once with a new token, `reset` to read the log from its beginning,
 * `stop` for good.
 */
export function verdict(code) {
    if (code === 'token_expired') return 'renew';
    if (code === 'seq_expired' || code === 'log_replaced') return 'reset';
    if (code === 'not_found' || code === 'conversation_ended') return 'stop';
    if (isAboutKey(code)) return 'stop';
    return 'retry';
}

export class Follower {
    #open;
    #on;
    #timers;
    #random;
    #last;
    #epoch; // of the log that `last` is of; '': not known
    #failures = 0;
    #close = null; // of the connection that is open or being opened
    #attempt = 0;
    #timer = null;
    #silence = null;
    #listens = true; // silence means something
    #renewed = false; // since the last event
    #ended = false;

    /**
     * `epoch`: of the log, as the conversation tells it.
     * `open(after, {onOpen, onActivity, onEvent, onEnd})` starts a connection and returns a function that ends it;
     * after that it calls nothing more. `on`: {event, state, reset}; `state` gets {name, retryMs?, code?, detail?} with
     * name `connecting`, `live`, `waiting` or `stopped`. `timers`: {set(callback, ms), clear(handle)}.
     */
    constructor({ open, on, timers, random = Math.random, after = 0, epoch = '' }) {
        this.#open = open;
        this.#on = on;
        this.#timers = timers;
        this.#random = random;
        this.#last = after;
        this.#epoch = epoch;
    }

    get last() {
        return this.#last;
    }

    /** Where the next connection goes on: a seq, and of which log it is. */
    get cursor() {
        return this.#last === 0 || this.#epoch === '' ? String(this.#last) : `${this.#last}-${this.#epoch}`;
    }

    start() {
        if (!this.#ended) this.#connect();
    }

    /** Ends everything; nothing is called any more. */
    stop() {
        this.#ended = true;
        this.#drop();
        this.#timers.clear(this.#timer);
    }

    /** The network may be back: tries at once instead of waiting on. */
    hurry() {
        if (this.#ended || this.#timer === null) return;
        this.#timers.clear(this.#timer);
        this.#connect();
    }

    #drop() {
        ++this.#attempt;
        this.#timers.clear(this.#silence);
        this.#silence = null;
        const close = this.#close;
        this.#close = null;
        if (close !== null) close();
    }

    #connect() {
        this.#timer = null;
        const attempt = ++this.#attempt;
        const current = (act) => (value) => {
            if (attempt === this.#attempt && !this.#ended) act(value);
        };
        this.#listens = true;
        this.#on.state({ name: 'connecting' });
        this.#heard();
        const close = this.#open(this.cursor, {
            onOpen: current(({ heartbeats = true } = {}) => {
                this.#listens = heartbeats;
                this.#heard();
                this.#on.state({ name: 'live' });
            }),
            onActivity: current(() => this.#heard()),
            onEvent: current((event) => this.#event(event)),
            onEnd: current((end) => this.#end(end)),
        });
        // A transport may end before it has returned.
        if (attempt === this.#attempt) this.#close = close;
        else close();
    }

    #heard() {
        this.#timers.clear(this.#silence);
        this.#silence = null;
        if (!this.#listens) return;
        this.#silence = this.#timers.set(() => this.#end({ code: 'silence', detail: 'Nothing came for too long.' }), SILENCE_MS);
    }

    #event(event) {
        this.#heard();
        if (!Number.isSafeInteger(event.seq) || event.seq <= this.#last) return;
        this.#last = event.seq;
        if (event.type === 'session_start') this.#epoch = event.data?.logEpoch ?? this.#epoch;
        this.#failures = 0;
        this.#renewed = false;
        this.#on.event(event);
    }

    #end({ code = '', detail = '', logEpoch = '' } = {}) {
        this.#drop();
        const what = verdict(code);
        if (what === 'stop') {
            this.#ended = true;
            this.#on.state({ name: 'stopped', code, detail });
            return;
        }
        // New tokens that expire at once do not make a loop without a pause.
        if (what === 'renew' && !this.#renewed) {
            this.#renewed = true;
            return this.#connect();
        }
        if (what === 'reset') {
            this.#last = 0;
            this.#epoch = logEpoch || this.#epoch;
            this.#on.reset();
        }
        const retryMs = delayOf(this.#failures++, this.#random());
        this.#timer = this.#timers.set(() => this.#connect(), retryMs);
        this.#on.state({ name: 'waiting', retryMs, code, detail });
    }
}
