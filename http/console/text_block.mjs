// Text that an agent wrote, in the page: chunks of bounded size, and a last line that can be written over.
import { AnsiParser } from './ansi.mjs';
import { h } from './dom.mjs';
import { Line, MAX_CELLS } from './line.mjs';
import { NODE_COST } from './pieces.mjs';

const CHUNK = 8 * 1024; // characters after which a line break begins a new element
const CHUNK_HARD = 32 * 1024; // the same without a line break

/** Every piece of text goes to the end. The last line can be written over, as on a terminal. */
export class TextBlock {
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
