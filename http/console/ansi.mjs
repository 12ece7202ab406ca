// Turns a program's terminal output into styled runs of text, piece by piece as it arrives.
// Everything it reads is hostile: only colours, bold, dim, italic, underline, inverse and strike have an effect, and what
// rewrites the last line (line.mjs); every other escape sequence is dropped, and characters that hide or reorder text are
// shown by name. Bounded: a sequence without an end is given up. Not here: the DOM.

const MAX_SEQUENCE = 256; // characters of one control sequence
const MAX_STRING = 4096; // characters of an OSC, DCS, PM, APC or SOS string

const TEXT = 0;
const ESCAPE = 1;
const SEQUENCE = 2;
const STRING = 3;
const STRING_ESCAPE = 4;
const INTERMEDIATE = 5;

// C0 but \t \n ESC, DEL, C1; bidi marks, embeddings, overrides and isolates; line and paragraph separators;
// invisible operators and fillers, interlinear marks, tags, a lone surrogate.
const SPECIAL =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function visible(character) {
    const code = character.codePointAt(0);
    if (code < 0x20 || code === 0x7f) return `^${String.fromCharCode(code ^ 0x40)}`;
    if (code >= 0xd800 && code <= 0xdfff) return '\ufffd';
    return `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
}

// The nearest of the 16 colours that a stylesheet knows.
function nearest(red, green, blue) {
    const high = Math.max(red, green, blue);
    const low = Math.min(red, green, blue);
    if (high - low < 40) return high < 50 ? 0 : high < 130 ? 8 : high < 210 ? 7 : 15;
    const half = (high + low) / 2;
    const bits = (red > half ? 1 : 0) | (green > half ? 2 : 0) | (blue > half ? 4 : 0);
    return bits + (high > 200 ? 8 : 0);
}

function indexed(number) {
    if (!(number >= 0 && number <= 255)) return null;
    if (number < 16) return number;
    if (number >= 232) {
        const grey = 8 + (number - 232) * 10;
        return nearest(grey, grey, grey);
    }
    const level = (step) => (step === 0 ? 0 : 55 + 40 * step);
    const cube = number - 16;
    return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

const FLAGS = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse', 9: 'strike' };
const RESETS = { 22: ['bold', 'dim'], 23: ['italic'], 24: ['underline'], 27: ['inverse'], 29: ['strike'] };

function plain() {
    return { fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, inverse: false, strike: false };
}

function classes(style) {
    const names = [];
    for (const flag of ['bold', 'dim', 'italic', 'underline', 'inverse', 'strike']) if (style[flag]) names.push(`a-${flag}`);
    if (style.fg !== null) names.push(`a-f${style.fg}`);
    // Text in the colour of its background would be hidden.
    if (style.bg !== null && style.bg !== style.fg) names.push(`a-b${style.bg}`);
    return names.join(' ');
}

export class AnsiParser {
    #state = TEXT;
    #held = ''; // of an unfinished sequence
    #length = 0; // of an unfinished string
    #style = plain();
    #classes = '';
    #high = ''; // first half of a surrogate pair

    /**
     * Runs of `text`: [{text, classes}], classes for CSS; between them {act, text: '', classes: ''} for what moves in the last line:
     * return, back, erase-0, erase-1, erase-2.
     */
    feed(text) {
        const runs = [];
        const emit = (piece, names) => {
            if (piece === '') return;
            const last = runs.at(-1);
            if (last !== undefined && last.act === undefined && last.classes === names) last.text += piece;
            else runs.push({ text: piece, classes: names });
        };
        const move = (act) => runs.push({ act, text: '', classes: '' });
        text = this.#high + text;
        this.#high = '';
        if (/[\ud800-\udbff]$/.test(text)) {
            this.#high = text.slice(-1);
            text = text.slice(0, -1);
        }
        let at = 0;
        while (at < text.length) {
            if (this.#state === TEXT) at = this.#text(text, at, emit, move);
            else at = this.#control(text, at, move);
        }
        return runs;
    }

    #text(text, at, emit, move) {
        SPECIAL.lastIndex = at;
        const found = SPECIAL.exec(text);
        const end = found === null ? text.length : found.index;
        emit(text.slice(at, end), this.#classes);
        if (found === null) return text.length;
        const character = found[0];
        if (character === '\x1b') {
            this.#state = ESCAPE;
            return end + 1;
        }
        if (character === '\r') move('return');
        else if (character === '\b') move('back');
        else emit(visible(character), 'a-control');
        return end + character.length;
    }

    #control(text, at, move) {
        const character = text[at];
        const code = text.charCodeAt(at);
        switch (this.#state) {
            case ESCAPE:
                this.#held = '';
                this.#length = 0;
                if (character === '[') this.#state = SEQUENCE;
                else if (']P_^X'.includes(character)) this.#state = STRING;
                else if (code >= 0x20 && code <= 0x2f) this.#state = INTERMEDIATE;
                else if (code >= 0x30 && code <= 0x7e) this.#state = TEXT;
                else return this.#abandon(at);
                return at + 1;
            case INTERMEDIATE:
                if (code >= 0x20 && code <= 0x2f && ++this.#length < MAX_SEQUENCE) return at + 1;
                if (code < 0x30 || code > 0x7e) return this.#abandon(at);
                this.#state = TEXT;
                return at + 1;
            case SEQUENCE:
                if (code >= 0x40 && code <= 0x7e) {
                    if (character === 'm') this.#sgr(this.#held);
                    if (character === 'K' && /^[012]?$/.test(this.#held)) move(`erase-${this.#held || 0}`);
                    this.#state = TEXT;
                    return at + 1;
                }
                if (code < 0x20 || code > 0x3f || this.#held.length >= MAX_SEQUENCE) return this.#abandon(at);
                this.#held += character;
                return at + 1;
            case STRING:
                // A string that never ends must not swallow the text after it.
                if (character === '\n' || ++this.#length > MAX_STRING) return this.#abandon(at);
                if (character === '\x07' || character === '\x9c') this.#state = TEXT;
                else if (character === '\x1b') this.#state = STRING_ESCAPE;
                return at + 1;
            default:
                this.#state = character === '\\' ? TEXT : ESCAPE;
                return character === '\\' ? at + 1 : at;
        }
    }

    #abandon(at) {
        this.#state = TEXT;
        return at;
    }

    #sgr(parameters) {
        if (!/^[0-9;:]*$/.test(parameters)) return;
        const numbers = parameters.split(/[;:]/).map((word) => (word === '' ? 0 : Number(word)));
        const style = this.#style;
        for (let i = 0; i < numbers.length; ++i) {
            const n = numbers[i];
            if (n === 0) Object.assign(style, plain());
            else if (FLAGS[n]) style[FLAGS[n]] = true;
            else if (RESETS[n]) for (const flag of RESETS[n]) style[flag] = false;
            else if (n >= 30 && n <= 37) style.fg = n - 30;
            else if (n >= 90 && n <= 97) style.fg = n - 82;
            else if (n >= 40 && n <= 47) style.bg = n - 40;
            else if (n >= 100 && n <= 107) style.bg = n - 92;
            else if (n === 39) style.fg = null;
            else if (n === 49) style.bg = null;
            else if (n === 38 || n === 48) {
                let colour = null;
                if (numbers[i + 1] === 5) {
                    colour = indexed(numbers[i + 2]);
                    i += 2;
                } else if (numbers[i + 1] === 2) {
                    colour = nearest(numbers[i + 2] ?? 0, numbers[i + 3] ?? 0, numbers[i + 4] ?? 0);
                    i += 4;
                }
                if (colour !== null) style[n === 38 ? 'fg' : 'bg'] = colour;
            }
        }
        this.#classes = classes(style);
    }
}

const KEPT = { return: '\n', back: '^H' };

/** `text` as one harmless string: no escape sequence, nothing that hides or reorders; of a line that is written over, all of it. */
export function harmless(text) {
    const runs = new AnsiParser().feed(String(text).replaceAll('\r\n', '\n'));
    return runs.map(({ act, text: piece }) => KEPT[act] ?? piece).join('');
}
