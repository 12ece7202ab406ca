// The menu of the open conversation: its name, and ways to take it along.
import { nameOf } from './labels.mjs';
import { raiseQuestion } from './limits.mjs';
import { curlOf, transcriptOf } from './share.mjs';
import { h } from './dom.mjs';

const PAGE = 1000; // events of one request
const MAX_EVENTS = 100_000;

/** Asks by `ask(question)` for another name of a conversation, which it is given: the conversation as it is then, or null. */
export async function renamed(api, { id, title }, ask) {
    const name = await ask({ title: 'Rename', text: 'Empty: the agent and the beginning of the id.', name: title ?? '', action: 'Rename' });
    return name === null ? null : api.patch(id, { title: name.trim() === '' ? null : name.trim() });
}

export class Menu {
    #api;
    #conversation;
    #on;
    #abort = new AbortController();

    /** `on`: {tell(text), ask(question), changed(conversation), lastAsked()}. */
    constructor(api, conversation, at, on) {
        this.#api = api;
        this.#conversation = conversation;
        this.#on = on;
        const click = (element, act) => element.addEventListener('click', () => this.#guarded(act), { signal: this.#abort.signal });
        click(at.rename, () => this.#rename());
        click(at.copyCurl, () => this.#copy(curlOf(location.origin, this.#conversation, this.#on.lastAsked() ?? 'echo hello'), 'The command was copied.'));
        click(at.copyId, () => this.#copy(this.#conversation.id, 'The id was copied.'));
        click(at.saveTranscript, () => this.#save());
    }

    destroy() {
        this.#abort.abort();
    }

    update(conversation) {
        this.#conversation = conversation;
    }

    async #guarded(act) {
        try {
            await act();
        } catch (error) {
            if (!this.#abort.signal.aborted) this.#on.tell(error.message);
        }
    }

    /** Asks for a higher `limit`: memoryMb or diskMb. */
    raise(limit) {
        return this.#guarded(async () => {
            const typed = await this.#on.ask(raiseQuestion(limit, this.#conversation.limits[limit]));
            if (typed === null) return;
            this.#on.changed(await this.#api.patch(this.#conversation.id, { limits: { [limit]: Number(typed) } }));
            this.#on.tell(`The limit is ${Number(typed)} MB from the next start on.`);
        });
    }

    async #rename() {
        const changed = await renamed(this.#api, this.#conversation, this.#on.ask);
        if (changed !== null) this.#on.changed(changed);
    }

    async #copy(text, done) {
        try {
            await navigator.clipboard.writeText(text);
        } catch {
            throw new Error('This browser gives the page no clipboard here.');
        }
        this.#on.tell(done);
    }

    async #save() {
        const conversation = this.#conversation;
        const events = [];
        let after = 0;
        for (;;) {
            const page = await this.#api.events(conversation.id, after, PAGE, this.#abort.signal);
            events.push(...page.events);
            if (page.events.length === 0 || page.next <= after || events.length >= MAX_EVENTS) break;
            after = page.next;
        }
        const link = h('a');
        link.href = URL.createObjectURL(new Blob([transcriptOf(conversation, events)], { type: 'text/markdown' }));
        link.download = `${nameOf(conversation).replace(/[^\p{L}\p{N}._-]+/gu, '-')}.md`;
        link.click();
        // The browser has taken it by then.
        setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    }
}
