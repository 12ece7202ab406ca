// Messages of one conversation on their way to the server: one after the other, each with its key, so that one whose answer
// was lost is sent again and taken once. A message waits for a server that is away, and for the turn that is open. Pure: the
// request and the clock are given.

const RETRY_MS = [500, 1000, 2000, 5000];

// The server is away or is stopping; a proxy before it may answer in its place.
const AWAY = new Set([502, 503, 504].map((status) => `http_${status}`)).add('shutting_down');
const BUSY = new Set(['turn_in_progress', 'conversation_starting']);
const isAway = ({ status, code }) => status === 0 || AWAY.has(code);

export class Outbox {
    #send;
    #refused;
    #timers;
    #items = [];
    #isSending = false;
    #isStopped = false;
    #failures = 0;
    #timer = null;
    /** `on(item)` is called after each change of an item: {text, state, turn?}; states: sending, server, turn, accepted, gone. */
    on = () => {};
    /** True while a turn is known to be open; call hurry() when it has ended. Else the server is asked by sending. */
    isOpen = () => false;

    /** `send(text, key)` gives a promise of {turn}. `refused(text, error)`: it is not sent again. `timers`: {set(act, ms), clear(handle)}. */
    constructor({ send, refused, timers }) {
        this.#send = send;
        this.#refused = refused;
        this.#timers = timers;
    }

    /** The messages that are not accepted yet, the oldest first. */
    get items() {
        return this.#items;
    }

    add(text) {
        const item = { text, key: randomWord(), state: this.isOpen() || this.#items.length > 0 ? 'turn' : 'sending' };
        this.#items.push(item);
        this.on(item);
        this.#next();
    }

    /** Takes back a message that waits: its text, or null where it is being sent. */
    take(item) {
        const at = this.#items.indexOf(item);
        if (at < 0 || (at === 0 && this.#isSending)) return null;
        this.#remove(item, 'gone');
        return item.text;
    }

    /** Tries at once: the server may be back, or the turn be over. */
    hurry() {
        this.#timers.clear(this.#timer);
        this.#timer = null;
        this.#failures = 0;
        this.#next();
    }

    stop() {
        this.#isStopped = true;
        this.#timers.clear(this.#timer);
        this.#items = [];
    }

    #mark(item, state) {
        if (item.state === state) return;
        item.state = state;
        this.on(item);
    }

    #remove(item, state) {
        this.#items = this.#items.filter((other) => other !== item);
        item.state = state;
        this.on(item);
    }

    #later() {
        const wait = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)];
        this.#timers.clear(this.#timer);
        this.#timer = this.#timers.set(() => {
            this.#timer = null;
            this.#next();
        }, wait);
    }

    async #next() {
        while (this.#items.length > 0 && !this.#isSending && !this.#isStopped && this.#timer === null) {
            const [item] = this.#items;
            if (this.isOpen()) {
                this.#mark(item, 'turn');
                return;
            }
            if (item.state === 'turn') this.#mark(item, 'sending');
            this.#isSending = true;
            let error = null;
            try {
                item.turn = (await this.#send(item.text, item.key)).turn;
            } catch (caught) {
                error = caught;
            }
            this.#isSending = false;
            if (this.#isStopped) return;
            if (error === null) {
                this.#failures = 0;
                this.#remove(item, 'accepted');
            } else if (isAway(error) || BUSY.has(error.code)) {
                this.#mark(item, isAway(error) ? 'server' : 'turn');
                this.#later();
            } else {
                this.#remove(item, 'gone');
                this.#refused(item.text, error);
            }
        }
    }
}

function randomWord() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
