// Drafts: the text that was typed in this tab and neither sent nor saved, by conversation. It is there again when its
// conversation is opened again, and is lost when the page goes. Pure.

export class Drafts {
    #messages = new Map(); // id -> text
    #edits = new Map(); // id -> (path -> OpenFile with changes)
    #outboxes = new Map(); // id -> Outbox

    /** The message that is being typed. */
    message(id) {
        return this.#messages.get(id) ?? '';
    }
    setMessage(id, text) {
        if (text === '') this.#messages.delete(id);
        else this.#messages.set(id, text);
    }
    /** A message that was not sent after all; what was typed since then comes after it. */
    giveBack(id, text) {
        const since = this.message(id);
        this.setMessage(id, since === '' ? text : `${text}\n${since}`);
    }

    /** The files with changes, by their paths: the editor's to write. */
    edits(id) {
        if (!this.#edits.has(id)) this.#edits.set(id, new Map());
        return this.#edits.get(id);
    }
    hasEdits(id) {
        return (this.#edits.get(id)?.size ?? 0) > 0;
    }
    get hasAnyEdits() {
        return [...this.#edits.keys()].some((id) => this.hasEdits(id));
    }

    /** The messages on their way; `make()` gives an Outbox where there is none. */
    outbox(id, make) {
        if (!this.#outboxes.has(id)) this.#outboxes.set(id, make());
        return this.#outboxes.get(id);
    }
    get hasAnyUnsent() {
        return [...this.#outboxes.values()].some(({ items }) => items.length > 0);
    }

    /** The conversation is gone. */
    forget(id) {
        this.#messages.delete(id);
        this.#edits.delete(id);
        this.#outboxes.get(id)?.stop();
        this.#outboxes.delete(id);
    }
    /** Nothing of it is sent any more. */
    stop() {
        for (const outbox of this.#outboxes.values()) outbox.stop();
    }
}
