// The questions that wait for a person, above the field for messages: hosts that a program inside asks for, tools that the agent asks to use.
// Rows stay as they are while others come and go, and none takes the focus: people are about to press a button, or type. Rows stand on the field
// below them, so each that comes or goes moves others: for a moment no button takes a click, which was meant for another row. Keys count always.
import { button, h } from './dom.mjs';
import { Questions } from './questions.mjs';

const SETTLE_MS = 250; // many questions come and go together
const MOVED_MS = 500; // people need longer than this to see that rows moved
const WORDS = { host: ['A program inside asks for', 'ask-host'], tool: ['The agent asks to use', 'ask-tool'] };
const DECIDED = new Set([404, 409]);

export class QuestionsPanel {
    #api;
    #id;
    #at;
    #on;
    #questions;
    #rows = new Map(); // by key
    #settle = null; // the timer, while what is shown is behind
    #moved = null;
    #abort = new AbortController();

    /** `on`: {changed(conversation), tell(text), say(text), reveal(seq), leave(): takes the focus from a row that goes}. */
    constructor(api, { id, lastSeq }, at, on) {
        this.#api = api;
        this.#id = id;
        this.#at = at;
        this.#on = on;
        this.#questions = new Questions(lastSeq);
        this.#render();
    }

    destroy() {
        this.#abort.abort();
        this.reset();
        clearTimeout(this.#moved);
        this.#at.questionsList.classList.remove('moved');
    }

    /** The log begins anew, or another one does. */
    reset() {
        this.#questions = new Questions();
        this.#render();
    }

    event(event) {
        if (!this.#questions.apply(event)) return;
        // Nobody shall press a button that is of no use any more.
        if ([...this.#rows.keys()].some((key) => !this.#questions.has(key))) return this.#render();
        // A timer that runs is left alone: a stream of changes must not hide what waits.
        this.#settle ??= setTimeout(() => this.#render(), SETTLE_MS);
    }

    #render() {
        clearTimeout(this.#settle);
        this.#settle = null;
        const { questions, questionsList } = this.#at;
        const { shown } = this.#questions;
        for (const [key, row] of this.#rows) {
            if (this.#questions.has(key)) continue;
            const isFocused = row.contains(document.activeElement);
            row.remove();
            this.#hold();
            this.#rows.delete(key);
            if (isFocused && !this.#abort.signal.aborted) this.#on.leave();
        }
        const asked = shown.filter(({ key }) => !this.#rows.has(key));
        for (const question of asked) {
            const row = this.#row(question);
            this.#rows.set(question.key, row);
            questionsList.append(row);
            this.#hold();
        }
        questions.hidden = shown.length === 0;
        if (shown.length === 0) this.#show(null);
        if (asked.length > 0) this.#on.say(asked.map(wordsOf).join(' '));
    }

    // Rows move.
    #hold() {
        const { questionsList } = this.#at;
        questionsList.classList.add('moved');
        clearTimeout(this.#moved);
        this.#moved = setTimeout(() => questionsList.classList.remove('moved'), MOVED_MS);
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
                // The rule is in the network then. It was decided even if that cannot be read.
                const changed = await this.#api.get(this.#id).catch(() => null);
                if (changed !== null && !signal.aborted) this.#on.changed(changed);
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
