// The transcript in the page. Operations (transcript.mjs) are queued and written once a frame, within a time budget;
// what is kept is bounded, the oldest goes first. Text of agents becomes text nodes and nothing else.
import { harmless } from './ansi.mjs';
import { button, h } from './dom.mjs';
import { NODE_COST, Pieces } from './pieces.mjs';
import { TextBlock } from './text_block.mjs';
import { ToolCard } from './tool_card.mjs';

const FRAME_MS = 10; // of work in one frame
const SLICE = 16 * 1024; // characters between two looks at the clock
const PICTURE_COST = 4; // characters of a picture that weigh as one of text
const MAX_QUEUED = 4 * 1024 * 1024; // characters that wait; above it no more is read
const MAX_TOOLS = 1000; // of one turn that wait for their result
const HIDDEN_MS = 500; // a page in the background has no frames
const GOOD = new Set(['success', 'end_turn']); // results of a turn that need no word

export class TranscriptView {
    #scroller;
    #root;
    #waiting;
    #folded;
    #onRaise;
    #onScroll;
    #resizes;
    #terminal;
    #queue = [];
    #queued = 0;
    #scheduled = false;
    #drains = [];
    #pieces = new Pieces();
    #turns = new Map(); // name -> {element, answer, outcome, complete, tools, asked, plan, raw, over}
    #asked = new Map(); // turn, or the element itself while the turn has no name -> element
    #blocks = new Map(); // key of the newest block of a turn -> TextBlock
    #stuck = true; // to the end
    #dead = false;

    /**
     * `waiting`: below the log, for what is not in it yet. `terminal`: text is the output of commands. `onStuck(bool)` tells whether
     * the end is in view. `onRaise(limit)`: a limit that ended the sandbox shall be raised.
     */
    constructor({ scroller, root, waiting, folded, terminal, onStuck, onRaise }) {
        this.#onRaise = onRaise;
        this.#scroller = scroller;
        this.#root = root;
        this.#waiting = waiting;
        this.#folded = folded;
        this.#terminal = terminal;
        root.replaceChildren();
        waiting.replaceChildren();
        root.className = terminal ? 'terminal' : 'prose';
        folded.hidden = true;
        let before = 0;
        this.#onScroll = () => {
            const { scrollTop, clientHeight, scrollHeight } = scroller;
            const up = scrollTop < before - 1;
            before = scrollTop;
            // Only a scroll upwards leaves the end; the end also moves when content gets its real height.
            const stuck = scrollTop + clientHeight >= scrollHeight - 48 || (this.#stuck && !up);
            if (stuck !== this.#stuck) onStuck((this.#stuck = stuck));
        };
        scroller.addEventListener('scroll', this.#onScroll, { passive: true });
        this.#resizes = new ResizeObserver(() => {
            if (this.#stuck) scroller.scrollTop = scroller.scrollHeight;
        });
        this.#resizes.observe(scroller);
        this.#resizes.observe(root);
        this.#resizes.observe(waiting);
        onStuck(true);
    }

    destroy() {
        this.#dead = true;
        this.#scroller.removeEventListener('scroll', this.#onScroll);
        this.#resizes.disconnect();
        this.#queue = [];
        this.#release();
    }

    push(operations) {
        for (const operation of operations) {
            const last = this.#queue.at(-1);
            const size = operation.op === 'text' ? operation.text.length : NODE_COST;
            this.#queued += size;
            if (operation.op === 'turn' && last?.op === 'text' && last.turn === operation.turn) continue;
            if (operation.op === 'text' && last?.op === 'text' && last.block === operation.block && last.text.length < SLICE)
                last.text += operation.text;
            else this.#queue.push({ ...operation });
        }
        this.#schedule();
    }

    /** Resolves when more may be pushed. */
    drained() {
        if (this.#queued < MAX_QUEUED || this.#dead) return Promise.resolve();
        return new Promise((done) => this.#drains.push(done));
    }

    toEnd() {
        this.#stuck = true;
        this.#scroller.scrollTop = this.#scroller.scrollHeight;
    }

    /**
     * Shows what was asked until the log has it. Gives {say(text, takeBack), settle(turn), remove()}; `say` tells below it why it waits,
     * with a button that calls takeBack.
     */
    ask(text) {
        const element = h('article', 'turn');
        const prompt = this.#prompt(text);
        prompt.classList.add('sending');
        const why = h('p', 'hint');
        element.append(prompt, why);
        this.#waiting.append(element);
        this.toEnd();
        return {
            say(words, takeBack) {
                why.replaceChildren(...(words === '' ? [] : [words, ' ', button('Take back', takeBack)]));
            },
            settle: (turn) => (this.#turns.has(turn) ? element.remove() : this.#asked.set(turn, element)),
            remove: () => element.remove(),
        };
    }

    #question(turn, { turn: name, text, seq }) {
        this.#asked.get(name)?.remove();
        this.#asked.delete(name);
        const prompt = this.#prompt(text);
        prompt.dataset.seq = seq;
        turn.element.insertBefore(prompt, turn.answer);
        this.#pieces.add(prompt, text.length + 2 * NODE_COST);
    }

    #prompt(text) {
        return h('div', this.#terminal ? 'prompt code' : 'prompt', harmless(text));
    }

    /** A picture below a turn, in place of an older one of the same path. Its bytes become an image and nothing else. */
    picture(name, { path, type, data }) {
        const turn = this.#turns.get(name);
        if (turn === undefined || !turn.element.isConnected) return;
        const figure = h('figure');
        const image = h('img');
        image.alt = `Picture ${harmless(path)}`;
        image.src = `data:${type};base64,${data}`;
        figure.dataset.path = path;
        figure.append(image, h('figcaption', 'hint', harmless(path)));
        const old = [...turn.element.querySelectorAll('figure')].find((one) => one.dataset.path === path);
        if (old === undefined) turn.element.append(figure);
        else old.replaceWith(figure);
        this.#pieces.add(figure, Math.ceil(data.length / PICTURE_COST));
    }

    #schedule() {
        if (this.#scheduled || this.#dead) return;
        this.#scheduled = true;
        const run = () => {
            this.#scheduled = false;
            if (!this.#dead) this.#flush();
        };
        if (document.hidden) setTimeout(run, HIDDEN_MS);
        else requestAnimationFrame(run);
    }

    #flush() {
        const until = performance.now() + FRAME_MS;
        let at = 0;
        while (at < this.#queue.length && performance.now() < until) {
            const operation = this.#queue[at];
            if (operation.op === 'text' && operation.text.length > SLICE) {
                this.#show({ ...operation, text: operation.text.slice(0, SLICE) });
                operation.text = operation.text.slice(SLICE);
                this.#queued -= SLICE;
                continue;
            }
            this.#show(operation);
            this.#queued -= operation.op === 'text' ? operation.text.length : NODE_COST;
            ++at;
        }
        this.#queue.splice(0, at);
        if (this.#queue.length === 0) this.#queued = 0;
        this.#pieces.trim();
        if (this.#pieces.dropped > 0) {
            this.#folded.hidden = false;
            const megabytes = (this.#pieces.dropped / 1024 / 1024).toFixed(1);
            this.#folded.textContent = `The oldest ${megabytes} MB are not shown; the server's log has them.`;
        }
        if (this.#stuck) this.#scroller.scrollTop = this.#scroller.scrollHeight;
        if (this.#queued < MAX_QUEUED / 2) this.#release();
        if (this.#queue.length > 0) this.#schedule();
    }

    #release() {
        for (const done of this.#drains.splice(0)) done();
    }

    #turn(name) {
        let turn = this.#turns.get(name);
        if (turn !== undefined && (turn.element.isConnected || !turn.over)) return turn;
        const element = h('article', 'turn');
        const answer = h('div', 'answer');
        const outcome = h('p', 'outcome running', 'Working…');
        element.append(answer, outcome);
        this.#root.append(element);
        turn = { element, answer, outcome, complete: null, tools: new Map(), asked: new Map(), plan: null, raw: null, over: false };
        this.#turns.set(name, turn);
        return turn;
    }

    #show(operation) {
        const turn = operation.turn ? this.#turn(operation.turn) : null;
        switch (operation.op) {
            case 'question':
                return this.#question(turn, operation);
            case 'text':
                return this.#block(turn, operation).append(operation.text);
            case 'thought':
                return this.#thought(turn, operation);
            case 'tool':
                return this.#tool(turn, operation);
            case 'result':
                return this.#result(turn, operation);
            case 'asked':
                return this.#ask(turn, operation);
            case 'decided':
                return this.#decide(turn, operation);
            case 'plan':
                return this.#plan(turn, operation);
            case 'message':
                return this.#raw(turn, operation);
            case 'complete':
                turn.complete = operation;
                return;
            case 'error':
                return this.#line(turn, 'error', `${harmless(operation.text)}${operation.code ? ` (${harmless(operation.code)})` : ''}`, operation.seq);
            case 'incident':
                return this.#incident(turn, operation);
            case 'end':
                return this.#end(turn, operation);
            case 'note':
                this.#remove(operation.others ?? '');
                return this.#line(turn, `note ${operation.tone}`, harmless(operation.url ? `${operation.text} ${operation.url}` : operation.text), operation.seq);
            default:
        }
    }

    #block(turn, { kind, block, seq }) {
        let found = this.#blocks.get(turn);
        if (found?.key === block && found.container.isConnected) return found.text;
        let container;
        let inside;
        if (kind === 'thinking') {
            container = h('details', 'thinking');
            inside = h('div', 'block');
            container.append(h('summary', 'running', 'Thinking…'), inside);
        } else container = inside = h('div', kind === 'stderr' ? 'block text stderr' : 'block text');
        container.dataset.seq = seq;
        turn.answer.append(container);
        found = { key: block, container, text: found?.key === block ? found.text : new TextBlock(inside, this.#pieces) };
        found.text.parent = inside;
        this.#blocks.set(turn, found);
        return found.text;
    }

    #thought(turn, { block, ms }) {
        const found = this.#blocks.get(turn);
        if (found?.key !== block) return;
        const summary = found.container.querySelector('summary');
        summary.className = '';
        summary.textContent = ms !== null && ms >= 1000 ? `Thought for ${Math.round(ms / 1000)} s` : 'Thought';
    }

    #card(turn, operation) {
        return new ToolCard(turn?.answer ?? this.#root, this.#pieces, operation);
    }

    #tool(turn, operation) {
        const card = this.#card(turn, operation);
        if (turn === null) return;
        turn.tools.set(operation.id, card);
        // The page drops the oldest cards first.
        for (const [id, one] of turn.tools) {
            if (one.isConnected && turn.tools.size <= MAX_TOOLS) break;
            one.end();
            turn.tools.delete(id);
        }
    }

    #result(turn, { id, parts, isError, seq }) {
        const known = turn?.tools.get(id);
        const card = known?.isConnected ? known : this.#card(turn, { name: 'result', brief: '', isNested: false, parts: [], seq });
        card.result(parts, isError);
    }

    // Where it is of no tool that is shown, it is a line of its own.
    #ask(turn, { id, tool, seq }) {
        if (turn?.asked.has(id)) return;
        const card = turn?.tools.get(tool);
        if (card?.isConnected) card.ask();
        const line = card?.isConnected ? null : this.#line(turn, 'note calm', 'The agent asks for a permission.', seq);
        turn?.asked.set(id, { card, line });
    }

    #decide(turn, { id, text, isAllowed, seq }) {
        const { card, line } = turn?.asked.get(id) ?? {};
        turn?.asked.delete(id);
        if (line?.isConnected) line.textContent = harmless(text);
        else if (card?.isConnected) card.decide(text, isAllowed);
        else this.#line(turn, 'note calm', harmless(text), seq);
    }

    /** Below the answer, where it stays in view while the answer grows. */
    #plan(turn, { steps, hidden }) {
        if (turn === null) return;
        if (!turn.plan?.element.isConnected) {
            const element = h('section', 'plan');
            element.setAttribute('aria-label', 'Plan');
            turn.element.insertBefore(element, turn.raw?.element.isConnected ? turn.raw.element : turn.outcome);
            turn.plan = { element, piece: this.#pieces.add(element, 0), cost: 0 };
        }
        const cost = steps.reduce((sum, { text }) => sum + text.length + 4 * NODE_COST, 4 * NODE_COST);
        this.#pieces.grow(turn.plan.piece, cost - turn.plan.cost);
        turn.plan.cost = cost;
        turn.plan.element.replaceChildren(...planElements(steps, hidden));
    }

    /** Events without a look of their own, folded: one fold for a turn. */
    #raw(turn, { kind, text }) {
        if (!turn?.raw?.element.isConnected) {
            const element = h('details', 'fold message');
            const summary = h('summary');
            const box = h('div', 'content');
            element.append(summary, box);
            if (turn === null) this.#root.append(element);
            else turn.element.insertBefore(element, turn.outcome);
            this.#pieces.add(element);
            const made = { element, summary, block: new TextBlock(box, this.#pieces), count: 0 };
            if (turn === null) return addRaw(made, kind, text);
            turn.raw = made;
        }
        addRaw(turn.raw, kind, text);
    }

    #line(turn, classes, text, seq) {
        const element = h('p', classes, text);
        element.dataset.seq = seq;
        (turn?.answer ?? this.#root).append(element);
        this.#pieces.add(element, text.length + 2 * NODE_COST);
        return element;
    }

    /** Brings the element of an event into view. */
    reveal(seq) {
        const element = this.#shown(seq);
        if (element?.tagName === 'DETAILS') {
            element.open = true;
            element.querySelector('summary').focus({ preventScroll: true });
        }
        element?.scrollIntoView({ block: 'center' });
    }

    // The element of an event.
    #shown(seq) {
        return this.#root.querySelector(`[data-seq="${seq}"]`);
    }

    #remove(seqs) {
        for (const seq of seqs === '' ? [] : seqs.split(',')) this.#shown(seq)?.remove();
    }

    /** Shows a card in place of the lines of the events that are part of it. */
    #incident(turn, { key, others, title, text, raise, seq }) {
        this.#remove(others);
        const card = this.#shown(key) ?? this.#line(turn, '', '', seq);
        card.className = 'incident';
        card.replaceChildren(h('b', '', title), document.createTextNode(`\n${harmless(text)}`));
        if (raise !== '') card.append('\n', button('Raise limit', () => this.#onRaise(raise)));
    }

    #end(turn, { failed, ms }) {
        turn.over = true;
        turn.element.dataset.over = '1';
        this.#blocks.delete(turn);
        for (const card of turn.tools.values()) card.end();
        turn.tools.clear();
        turn.asked.clear();
        const words = [];
        const { exitCode = null, result = '' } = turn.complete ?? {};
        if (exitCode !== null) words.push(`exit ${exitCode}`);
        if (result !== '' && !GOOD.has(result) && !(exitCode !== null && result === 'error')) words.push(harmless(result));
        if (failed && words.length === 0) words.push('failed');
        if (words.length === 0) words.push('done');
        if (ms !== null && ms >= 100) words.push(`${(ms / 1000).toFixed(1)} s`);
        turn.outcome.textContent = words.join(' · ');
        turn.outcome.className = failed || (exitCode ?? 0) !== 0 ? 'outcome bad' : 'outcome';
    }
}

function addRaw(raw, kind, text) {
    ++raw.count;
    raw.summary.textContent = raw.count === 1 ? 'One event as it came' : `${raw.count} events as they came`;
    raw.block.append(`${raw.count === 1 ? '' : '\n\n'}${harmless(kind)}\n${text}`);
}

const MARKS = { done: ['☑', 'done'], running: ['◐', 'in progress'], open: ['☐', 'to do'] };

function planElements(steps, hidden) {
    const list = h('ul');
    list.append(
        ...steps.map(({ text, state, isUrgent }) => {
            const [sign, words] = MARKS[state];
            const row = h('li', state);
            const mark = h('span', 'mark', sign);
            mark.setAttribute('aria-hidden', 'true');
            row.append(mark, h('span', 'hidden', `${words}: `), h('span', '', harmless(text)));
            if (isUrgent) row.append(' ', h('span', 'badge', 'high'));
            return row;
        }),
    );
    const done = steps.filter(({ state }) => state === 'done').length;
    const parts = [h('p', 'caption', `Plan · ${done} of ${steps.length} done`), list];
    if (hidden > 0) parts.push(h('p', 'hint', `${hidden} steps more are in the log.`));
    return parts;
}
