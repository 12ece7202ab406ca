// The questions that wait for a person, above the field for messages: hosts that a program inside asks for, tools that the agent asks to use.
// Rows stay as they are while others come and go, and none takes the focus: people are about to press a button, or type.
import { button, h } from './dom.mjs';
import { Questions } from './questions.mjs';

const SETTLE_MS = 250; // a log that is replayed asks much that is decided by now
const WORDS = { host: ['A program inside asks for', 'ask-host'], tool: ['The agent asks to use', 'ask-tool'] };
const DECIDED = new Set([404, 409]);

export class QuestionsPanel {
    #api;
    #id;
    #at;
    #on;
    #questions = new Questions();
    #rows = new Map(); // by key
    #settle = null;
    #abort = new AbortController();

    /** `on`: {changed(conversation), tell(text), say(text), reveal(seq), leave(): takes the focus from a row that goes}. */
    constructor(api, { id }, at, on) {
        this.#api = api;
        this.#id = id;
        this.#at = at;
        this.#on = on;
        this.#render();
    }

    destroy() {
        this.#abort.abort();
        this.reset();
    }

    /** The log begins anew. */
    reset() {
        clearTimeout(this.#settle);
        this.#questions = new Questions();
        this.#render();
    }

    event(event) {
        if (!this.#questions.apply(event)) return;
        clearTimeout(this.#settle);
        // Nobody shall press a button that is of no use any more.
        if ([...this.#rows.keys()].some((key) => !this.#questions.has(key))) return this.#render();
        this.#settle = setTimeout(() => this.#render(), SETTLE_MS);
    }

    #render() {
        const { questions, questionsList } = this.#at;
        const { shown } = this.#questions;
        for (const [key, row] of this.#rows) {
            if (this.#questions.has(key)) continue;
            const isFocused = row.contains(document.activeElement);
            row.remove();
            this.#rows.delete(key);
            if (isFocused && !this.#abort.signal.aborted) this.#on.leave();
        }
        const asked = shown.filter(({ key }) => !this.#rows.has(key));
        for (const question of asked) {
            const row = this.#row(question);
            this.#rows.set(question.key, row);
            questionsList.append(row);
        }
        questions.hidden = shown.length === 0;
        if (shown.length === 0) this.#show(null);
        if (asked.length > 0) this.#on.say(asked.map(wordsOf).join(' '));
    }

    #row(question) {
        const { kind, title, detail, choices, shownAt } = question;
        const [words, classes] = WORDS[kind];
        const row = h('li', classes);
        const what = h('p');
        what.append(`${words} `, h('code', '', title));
        if (detail !== '') what.append(' ', h('span', 'brief', detail));
        row.append(what);
        const { signal } = this.#abort;
        if (kind === 'tool') {
            const show = button('Show', () => this.#on.reveal(shownAt), { signal });
            show.className = 'quiet';
            show.setAttribute('aria-label', `Show what ${title} shall do`);
            row.append(show);
        }
        for (const choice of choices) {
            const one = button(choice.text, (event) => this.#press(event, question, choice), { signal });
            one.className = choice.isReject ? 'danger reject' : 'allow';
            one.title = choice.means;
            const means = choice.means === choice.text ? '' : ` (${choice.means})`;
            one.setAttribute('aria-label', `${choice.text}${means}: ${title} ${detail}`.trim());
            row.append(one);
        }
        return row;
    }

    // The second click of two is meant for a row that is gone.
    #press(event, question, choice) {
        if (event.detail <= 1) this.#answer(question, choice);
    }

    async #answer({ key, kind, id }, { value }) {
        const { signal } = this.#abort;
        const row = this.#rows.get(key);
        if (row.ariaBusy === 'true') return;
        // Not by `disabled`, which would take the focus from the button.
        row.ariaBusy = 'true';
        this.#show(null);
        try {
            if (kind === 'tool') await this.#api.permit(this.#id, id, value);
            else {
                await this.#api.decide(this.#id, id, value);
                // The rule is in the network then.
                const changed = await this.#api.get(this.#id);
                if (!signal.aborted) this.#on.changed(changed);
            }
            return;
        } catch (error) {
            if (signal.aborted) return;
            if (DECIDED.has(error.status)) {
                this.#questions.drop(key);
                this.#render();
                return this.#on.tell('That was decided already.');
            }
            this.#show(error);
        }
        row.ariaBusy = 'false';
    }

    #show(error) {
        const { questionsProblem } = this.#at;
        questionsProblem.hidden = error === null;
        questionsProblem.textContent = error === null ? '' : error.message;
    }
}

function wordsOf({ kind, title, detail }) {
    return `${WORDS[kind][0]} ${title} ${detail}`.trim().concat('.');
}
