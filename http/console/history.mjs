// The messages that were asked before, for the arrow keys of the message's field. Pure.

const MAX_KEPT = 200;

export class History {
    #all = [];
    #at = null; // which one the field shows; null: what is typed
    #typed = '';

    add(text) {
        this.reset();
        if (this.#all.at(-1) === text) return;
        this.#all.push(text);
        if (this.#all.length > MAX_KEPT) this.#all.shift();
    }

    get last() {
        return this.#all.at(-1) ?? null;
    }

    /** The one before that is shown, where `typed` is in the field; null where there is none. */
    older(typed) {
        if (this.#at === null) this.#typed = typed;
        const at = (this.#at ?? this.#all.length) - 1;
        if (at < 0) return null;
        this.#at = at;
        return this.#all[at];
    }

    /** The one after it, in the end what was typed; null where none is shown. */
    newer() {
        if (this.#at === null) return null;
        if (++this.#at < this.#all.length) return this.#all[this.#at];
        this.#at = null;
        return this.#typed;
    }

    /** Something else was typed. */
    reset() {
        this.#at = null;
    }
}
