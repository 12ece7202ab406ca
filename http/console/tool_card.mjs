// A tool call in the transcript: a line that says what it is and how it goes, and below it, folded, its input and its result.
import { harmless } from './ansi.mjs';
import { h } from './dom.mjs';
import { NODE_COST } from './pieces.mjs';
import { TextBlock } from './text_block.mjs';

const STATES = { running: 'running', waiting: 'asks for permission', done: 'done', failed: 'failed', ended: 'no result' };
const TAGS = { '+': 'ins', '-': 'del' };

export class ToolCard {
    #pieces;
    #piece;
    #element;
    #state = h('span', 'state');
    #decision = h('span', 'decision');
    #diffs = new Set(); // that it shows
    #isTouched = false; // somebody folded or unfolded it
    #isEnded = false;

    /** `call`: an operation `tool`; its `parts` are those of tools.mjs. */
    constructor(parent, pieces, { name, brief, isNested, parts, seq }) {
        this.#pieces = pieces;
        this.#element = h('details', isNested ? 'fold tool nested' : 'fold tool');
        this.#element.dataset.seq = seq;
        const summary = h('summary');
        summary.append(h('b', '', harmless(name) || 'a tool'), ' ');
        if (brief !== '') summary.append(h('span', 'brief', harmless(brief)), ' ');
        summary.append(this.#state, this.#decision);
        summary.addEventListener('click', () => (this.#isTouched = true));
        this.#element.append(summary);
        parent.append(this.#element);
        this.#piece = pieces.add(this.#element, 8 * NODE_COST + name.length + brief.length);
        this.#show('running');
        this.#inside('Input', 'content', parts);
    }

    get isConnected() {
        return this.#element.isConnected;
    }

    result(parts, isError) {
        this.#isEnded = true;
        this.#show(isError ? 'failed' : 'done');
        this.#inside('Result', 'result', parts);
    }

    /** Its agent waits for a permission. */
    ask() {
        if (!this.#isEnded) this.#show('waiting');
        // People must see the action that they allow.
        this.#open(true);
    }

    decide(text, isAllowed) {
        if (!this.#isEnded) this.#show('running');
        this.#decision.textContent = harmless(text);
        this.#decision.classList.toggle('bad', !isAllowed);
        this.#open(this.#diffs.size > 0);
    }

    /** Its turn is over. */
    end() {
        if (!this.#isEnded) this.#show('ended');
    }

    #show(state) {
        this.#state.textContent = STATES[state];
        this.#element.dataset.state = state;
    }

    #open(open) {
        if (!this.#isTouched) this.#element.open = open;
    }

    #inside(caption, classes, parts) {
        const shown = parts.filter((part) => part.kind !== 'diff' || this.#isNew(part));
        if (shown.length === 0) return;
        const box = h('div', classes);
        box.append(h('p', 'caption', caption));
        this.#element.append(box);
        for (const part of shown) {
            if (part.kind === 'diff') this.#diff(box, part);
            else if (part.kind === 'note') this.#note(box, part.text);
            else this.#text(box, part);
        }
    }

    // An agent may tell a change as the input and once more as the result.
    #isNew({ path, lines }) {
        const key = JSON.stringify([path, lines]);
        if (this.#diffs.has(key)) return false;
        this.#diffs.add(key);
        return true;
    }

    #note(parent, text) {
        parent.append(h('p', 'hint', harmless(text)));
        this.#pieces.grow(this.#piece, text.length + NODE_COST);
    }

    #text(parent, { text, more }) {
        const scroller = h('div', 'scroller');
        parent.append(scroller);
        new TextBlock(scroller, this.#pieces).append(text);
        if (more > 0) this.#note(parent, `${more} characters more are in the log.`);
    }

    #diff(parent, { path, lines, added, removed, hidden }) {
        const head = h('p', 'diff-head');
        head.append(h('b', '', harmless(path) || 'a file'), ' ', h('span', 'added', `+${added}`), ' ', h('span', 'removed', `−${removed}`));
        const box = h('div', 'diff scroller');
        box.tabIndex = 0;
        box.setAttribute('role', 'group');
        box.setAttribute('aria-label', `Changes of ${harmless(path) || 'a file'}`);
        box.append(
            ...lines.map(({ mark, text }) => {
                const line = harmless(text);
                return mark === '…' ? h('p', 'hint', `… ${line}`) : h(TAGS[mark] ?? 'span', '', `${mark} ${line}`);
            }),
        );
        parent.append(head, box);
        this.#pieces.grow(this.#piece, lines.reduce((sum, { text }) => sum + text.length + NODE_COST, 6 * NODE_COST));
        if (hidden > 0) this.#note(parent, `${hidden} changed lines more are in the log.`);
        this.#open(true);
    }
}
