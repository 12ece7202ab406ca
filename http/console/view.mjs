// The transcript in the page. Operations (transcript.mjs) are queued and written once a frame, within a time budget;
// what is kept is bounded, the oldest goes first. Text of agents becomes text nodes and nothing else.
import { AnsiParser, harmless } from './ansi.mjs';
import { Line, MAX_CELLS } from './line.mjs';

const FRAME_MS = 10; // of work in one frame
const SLICE = 16 * 1024; // characters between two looks at the clock
const CHUNK = 8 * 1024; // characters after which a line break begins a new element
const CHUNK_HARD = 32 * 1024; // the same without a line break
const NODE_COST = 64; // what a node weighs, in characters
const PICTURE_COST = 4; // characters of a picture that weigh as one of text
const MAX_COST = 3 * 1024 * 1024; // characters in the page
const MAX_QUEUED = 4 * 1024 * 1024; // characters that wait; above it no more is read
const MAX_TOOLS = 1000; // of one turn that wait for their result
const HIDDEN_MS = 500; // a page in the background has no frames

export function h(tag, classes = '', text = '') {
    const element = document.createElement(tag);
    if (classes !== '') element.className = classes;
    if (text !== '') element.textContent = text;
    return element;
}

export function button(text, act, options = {}) {
    const element = h('button', '', text);
    element.type = 'button';
    element.addEventListener('click', act, options);
    return element;
}

/** The options of a select, of [value, text] each. */
export function options(all, chosen) {
    return all.map(([value, text]) => {
        const option = h('option', '', text);
        option.value = value;
        option.selected = value === chosen;
        return option;
    });
}

/** Text that an agent wrote, in pieces: every piece goes to the end. The last line can be written over, as on a terminal. */
class TextBlock {
    #parser = new AnsiParser();
    #piece = null;
    #tail = []; // runs of the last line
    #tailSize = 0;
    #mark = null; // where the last line begins: {piece, node, offset}; null: behind all that is written
    #isReturned = false; // the next character goes to the beginning of the line
    #line = null; // Line, while it is written over
    #shown = null; // the element that shows it

    constructor(parent, pieces) {
        this.parent = parent;
        this.pieces = pieces;
    }

    append(text) {
        for (const run of this.#parser.feed(text)) {
            if (run.act === 'return' && this.#line === null) this.#isReturned = true;
            else if (run.act !== undefined) this.#move(run.act);
            else this.#text(run);
        }
        this.#draw();
    }

    #move(act) {
        if (this.#line === null && act === 'erase-0' && !this.#isReturned) return;
        if (this.#line === null) this.#rewrite();
        this.#line.move(act);
    }

    #text({ text, classes }) {
        const end = text.indexOf('\n');
        if (this.#isReturned && end !== 0) this.#rewrite();
        this.#isReturned = false;
        if (this.#line !== null) {
            this.#line.write(end < 0 ? text : text.slice(0, end), classes);
            if (end < 0 && !this.#line.isFull) return;
            this.#draw();
            this.#line = this.#shown = null;
            this.#forget();
            if (end < 0) return;
            text = text.slice(end);
        }
        this.#run({ text, classes });
        this.#remember({ text, classes });
    }

    // The last line leaves the page and becomes one whose cells can be written over.
    #rewrite() {
        const { piece, node, offset } = this.#mark ?? {};
        const isKnown = piece !== undefined && piece === this.#piece && !piece.dropped && this.#tailSize < MAX_CELLS;
        if (!isKnown && this.#tailSize > 0) this.#run({ text: '\n', classes: '' });
        else if (isKnown) {
            if (node === null) piece.element.replaceChildren();
            else {
                node.deleteData(offset, node.length - offset);
                const top = node.parentNode === piece.element ? node : node.parentNode;
                while (top.nextSibling !== null) top.nextSibling.remove();
            }
        }
        this.#line = new Line(isKnown ? this.#tail : []);
        if (this.#isReturned) this.#line.move('return');
        this.#isReturned = false;
        if (this.#piece === null || this.#piece.dropped) this.#begin();
        this.#shown = h('span');
        this.#piece.element.append(this.#shown);
        this.#forget();
    }

    #draw() {
        if (this.#line === null) return;
        const before = this.#shown.textContent.length;
        this.#shown.replaceChildren(...this.#line.runs.map(({ text, classes }) => h('span', classes, text)));
        const more = Math.max(0, this.#shown.textContent.length - before);
        this.#piece.size += more;
        this.pieces.grow(this.#piece, more);
    }

    #forget() {
        this.#tail = [];
        this.#tailSize = 0;
        this.#mark = null;
    }

    #remember({ text, classes }) {
        const at = text.lastIndexOf('\n');
        const rest = text.slice(at + 1);
        if (at >= 0) {
            this.#forget();
            const last = this.#piece?.element.lastChild ?? null;
            const node = last === null || last.nodeType === Node.TEXT_NODE ? last : last.firstChild;
            // A piece that ended with this line is followed by one that begins with the next.
            if (node !== null) this.#mark = { piece: this.#piece, node, offset: node.length - rest.length };
        }
        this.#tailSize += rest.length;
        if (rest !== '' && this.#tailSize < MAX_CELLS) this.#tail.push({ text: rest, classes });
    }

    #run({ text, classes }) {
        while (text !== '') {
            if (this.#piece === null || this.#piece.dropped) this.#begin();
            const piece = this.#piece;
            let take = text.length;
            let ends = false;
            if (piece.size + text.length > CHUNK) {
                // The line break itself is the border between two elements.
                const line = text.indexOf('\n', Math.max(0, CHUNK - piece.size));
                if (line >= 0) {
                    take = line + 1;
                    ends = true;
                } else if (piece.size + text.length > CHUNK_HARD) {
                    take = Math.max(1, CHUNK_HARD - piece.size);
                    if (/[\ud800-\udbff]/.test(text[take - 1]) && take < text.length) ++take;
                    ends = true;
                }
            }
            this.#write(text.slice(0, take), classes);
            text = text.slice(take);
            if (ends) this.#piece = null;
        }
    }

    #write(text, classes) {
        const piece = this.#piece;
        const last = piece.element.lastChild;
        let cost = text.length;
        if (classes === '') {
            if (last !== null && last.nodeType === Node.TEXT_NODE) last.appendData(text);
            else {
                piece.element.append(document.createTextNode(text));
                cost += NODE_COST;
            }
        } else {
            piece.element.append(h('span', classes, text));
            cost += 2 * NODE_COST;
        }
        piece.size += cost;
        this.pieces.grow(piece, cost);
    }

    #begin() {
        const element = h('div', 'chunk');
        this.parent.append(element);
        this.#piece = this.pieces.add(element);
        // The line that is being written began with it, if it did not begin before.
        if (this.#tailSize === 0) this.#mark ??= { piece: this.#piece, node: null, offset: 0 };
    }
}

// True for an element that holds nothing any more, and gets nothing more.
function isSpent(element) {
    if (element.classList.contains('turn'))
        return element.dataset.over === '1' && element.querySelector('.chunk, .error, .fold, .incident, .note, figure') === null;
    return element.childElementCount === 0 && !element.classList.contains('answer');
}

/** What is in the page, oldest first, and how much it weighs. */
class Pieces {
    #all = [];
    #from = 0;
    #cost = 0;
    dropped = 0;

    add(element, cost = 4 * NODE_COST) {
        const piece = { element, cost: 0, size: 0, dropped: false };
        this.#all.push(piece);
        this.grow(piece, cost);
        return piece;
    }

    grow(piece, cost) {
        piece.cost += cost;
        this.#cost += cost;
    }

    /** Drops the oldest until the page's bound holds; the newest piece stays. */
    trim() {
        while (this.#cost > MAX_COST && this.#from < this.#all.length - 1) {
            const piece = this.#all[this.#from++];
            piece.dropped = true;
            this.#cost -= piece.cost;
            this.dropped += piece.size;
            const parents = [];
            for (let at = piece.element.parentElement; at !== null && at.id !== 'turns'; at = at.parentElement) parents.push(at);
            piece.element.remove();
            // An emptied turn goes with its last piece, unless it still runs.
            for (const parent of parents) {
                if (isSpent(parent)) parent.remove();
            }
        }
        if (this.#from > 1000) {
            this.#all.splice(0, this.#from);
            this.#from = 0;
        }
    }
}

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
    #turns = new Map(); // name -> {element, answer, outcome, complete, tools}
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
        turn = { element, answer, outcome, complete: null, tools: new Map(), over: false };
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
            case 'tool':
                return this.#tool(turn, operation);
            case 'result':
                return this.#result(turn, operation);
            case 'message':
                return this.#fold(turn, 'message', harmless(operation.kind), operation.text, operation.seq);
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
            container.append(h('summary', '', 'Thinking'), inside);
        } else container = inside = h('div', kind === 'stderr' ? 'block text stderr' : 'block text');
        container.dataset.seq = seq;
        turn.answer.append(container);
        found = { key: block, container, text: found?.key === block ? found.text : new TextBlock(inside, this.#pieces) };
        found.text.parent = inside;
        this.#blocks.set(turn, found);
        return found.text;
    }

    #fold(turn, kind, title, text, seq) {
        const parent = turn?.answer ?? this.#root;
        const details = h('details', `fold ${kind}`);
        const summary = h('summary', '', kind === 'tool' ? 'Tool ' : '');
        summary.append(h('b', '', title));
        details.append(summary);
        details.dataset.seq = seq;
        parent.append(details);
        this.#pieces.add(details);
        this.#inside(details, 'content', text);
        return details;
    }

    #inside(details, classes, text) {
        if (text === '') return;
        const box = h('div', classes);
        details.append(box);
        new TextBlock(box, this.#pieces).append(text);
    }

    #tool(turn, { id, name, input, seq }) {
        const details = this.#fold(turn, 'tool', harmless(name) || 'without a name', input, seq);
        turn?.tools.set(id, details);
        if (turn !== null && turn.tools.size > MAX_TOOLS) turn.tools.delete(turn.tools.keys().next().value);
    }

    #result(turn, { id, content, isError, seq }) {
        const known = turn?.tools.get(id);
        const details = known?.isConnected ? known : this.#fold(turn, 'tool', 'result', '', seq);
        const summary = details.querySelector('summary');
        if (isError) details.classList.add('failed');
        // Once: a tool that answers again and again must not make the page grow.
        if (!details.dataset.ended) summary.append(isError ? ' failed' : ' done');
        details.dataset.ended = 'true';
        this.#inside(details, 'result', content);
    }

    #line(turn, classes, text, seq) {
        const element = h('p', classes, text);
        element.dataset.seq = seq;
        (turn?.answer ?? this.#root).append(element);
        this.#pieces.add(element, text.length + 2 * NODE_COST);
        return element;
    }

    // The element of an event.
    #shown(seq) {
        return this.#root.querySelector(`[data-seq="${seq}"]`);
    }

    #remove(seqs) {
        for (const seq of seqs === '' ? [] : seqs.split(',')) this.#shown(seq)?.remove();
    }

    /** One card in place of the lines of the events that are part of it. */
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
        const words = [];
        const { exitCode = null, result = '' } = turn.complete ?? {};
        if (exitCode !== null) words.push(`exit ${exitCode}`);
        if (result !== '' && result !== 'success' && !(exitCode !== null && result === 'error')) words.push(harmless(result));
        if (failed && words.length === 0) words.push('failed');
        if (words.length === 0) words.push('done');
        if (ms !== null && ms >= 100) words.push(`${(ms / 1000).toFixed(1)} s`);
        turn.outcome.textContent = words.join(' · ');
        turn.outcome.className = failed || (exitCode ?? 0) !== 0 ? 'outcome bad' : 'outcome';
    }
}
