// The network of the open conversation: what was refused, each with a button that allows it, and the dialog that sets it.
// A PATCH replaces the network as a whole: it is read before, and one change waits for the other.
import { Denials, modeOf, networkOf, rulesOf } from './network.mjs';
import { h } from './dom.mjs';

const SETTLE_MS = 250; // a log that is replayed refuses many at once

export class NetworkPanel {
    #api;
    #conversation;
    #at;
    #on;
    #denials = new Denials();
    #rows = new Map(); // by key
    #read = null; // the network that the dialog shows
    #changes = Promise.resolve();
    #settle = null;
    #abort = new AbortController();

    /** `on`: {show(network): fills the dialog's fields, fields(): {mode, rules, more}, changed(conversation), tell(text)}. */
    constructor(api, conversation, at, on) {
        this.#api = api;
        this.#conversation = conversation;
        this.#at = at;
        this.#on = on;
        const { signal } = this.#abort;
        at.network.addEventListener('click', () => this.#open(), { signal });
        at.networkForm.addEventListener('submit', (event) => this.#submit(event), { signal });
        this.#render();
    }

    destroy() {
        this.#abort.abort();
        clearTimeout(this.#settle);
        this.#denials = new Denials();
        this.#render();
        // It asks about this conversation.
        this.#at.networkDialog.close();
    }

    update(conversation) {
        this.#conversation = conversation;
        this.#render();
    }

    /** The log begins anew. */
    reset() {
        this.#denials = new Denials();
        this.#render();
    }

    event(event) {
        if (!this.#denials.apply(event)) return;
        clearTimeout(this.#settle);
        this.#settle = setTimeout(() => this.#render(), SETTLE_MS);
    }

    // Rows stay as they are where they can: people are about to press a button.
    #render() {
        const { denials, denialsList } = this.#at;
        const shown = this.#denials.shown(this.#conversation.network);
        const keys = new Set(shown.map(({ key }) => key));
        for (const [key, row] of this.#rows)
            if (!keys.has(key)) {
                row.remove();
                this.#rows.delete(key);
            }
        for (const denial of shown) {
            if (!this.#rows.has(denial.key)) {
                const row = this.#row(denial);
                this.#rows.set(denial.key, row);
                denialsList.append(row);
            }
            this.#rows.get(denial.key).querySelector('.hint').textContent = denial.why;
        }
        denials.hidden = shown.length === 0;
        if (shown.length === 0) this.#show(this.#at.denialsProblem, null);
    }

    #row({ target, rule }) {
        const row = h('li');
        row.append(h('code', '', target), h('span', 'hint'));
        if (rule === null) return row;
        const button = h('button', '', 'Allow');
        button.type = 'button';
        button.title = `Adds the rule ${rule}`;
        button.setAttribute('aria-label', `Allow ${rule}`);
        button.addEventListener('click', () => this.#allow(rule, button), { signal: this.#abort.signal });
        row.append(button);
        return row;
    }

    async #allow(rule, button) {
        button.disabled = true;
        const error = await this.#change((network) => {
            if (modeOf(network) !== 'egress') throw new Error('The network of the sandbox is not egress any more.');
            return networkOf('egress', [...new Set([...rulesOf(network), rule])], network);
        });
        button.disabled = false;
        this.#show(this.#at.denialsProblem, error);
    }

    async #open() {
        try {
            this.#read = (await this.#api.get(this.#conversation.id)).network;
        } catch (error) {
            if (!this.#abort.signal.aborted) this.#on.tell(error.message);
            return;
        }
        if (this.#abort.signal.aborted) return;
        this.#on.show(this.#read);
        this.#show(this.#at.networkError, null);
        if (!this.#at.networkDialog.open) this.#at.networkDialog.showModal();
    }

    async #submit(event) {
        event.preventDefault();
        const { networkForm, networkDialog, networkError } = this.#at;
        const button = networkForm.querySelector('button[type=submit]');
        if (button.disabled) return;
        button.disabled = true;
        const { mode, rules, more } = this.#on.fields();
        const error = await this.#change((network) => {
            const isSame = JSON.stringify(network) === JSON.stringify(this.#read);
            this.#read = network;
            if (!isSame) throw new Error('Somebody else has changed the network since it was read here. Save again to replace it.');
            return networkOf(mode, rules, modeOf(network) === 'egress' ? { ...network, ...more } : more);
        });
        button.disabled = false;
        this.#show(networkError, error);
        if (error === null && !this.#abort.signal.aborted) networkDialog.close();
    }

    /** Sets what `make(network)` gives for the network as it is now. The error, or null. */
    #change(make) {
        const change = async () => {
            const { id } = this.#conversation;
            try {
                const changed = await this.#api.patch(id, { network: make((await this.#api.get(id)).network) });
                if (!this.#abort.signal.aborted) this.#on.changed(changed);
                return null;
            } catch (error) {
                return error;
            }
        };
        this.#changes = this.#changes.then(change);
        return this.#changes;
    }

    #show(problem, error) {
        if (this.#abort.signal.aborted && error !== null) return;
        problem.hidden = error === null;
        problem.textContent = error === null ? '' : error.message;
    }
}
