// What was typed in this tab and not sent, by conversation: it is there again when its conversation is. It goes with the page. Pure.

export class Drafts {
    #messages = new Map(); // id -> text

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

    /** The conversation is gone. */
    forget(id) {
        this.#messages.delete(id);
    }
}
