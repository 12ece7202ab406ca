// What was typed in this tab and neither sent nor saved, by conversation: it is there again when its conversation is. It goes with
// the page. Pure.

export class Drafts {
    #messages = new Map(); // id -> text
    #edits = new Map(); // id -> (path -> OpenFile with changes)

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

    /** The conversation is gone. */
    forget(id) {
        this.#messages.delete(id);
        this.#edits.delete(id);
    }
}
