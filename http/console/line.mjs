// A line of output that a program writes over: carriage returns, backspaces and erasures of the line move a cursor
// in it, as on a terminal. A character is one cell, wide or not. Pure and bounded.

/** Cells of a line that can be written over; a longer one goes on below. */
export const MAX_CELLS = 4096;

export class Line {
    #cells = []; // {text, classes}
    #column = 0;

    /** `runs`: what the line holds already, [{text, classes}]; the cursor stands behind it. */
    constructor(runs = []) {
        for (const { text, classes } of runs) this.write(text, classes);
    }

    get isFull() {
        return this.#cells.length >= MAX_CELLS;
    }

    write(text, classes) {
        for (const character of text) {
            if (this.#column > MAX_CELLS) return;
            // A combining character belongs to the cell before it.
            if (/^[\p{M}\u200d\ufe0f]$/u.test(character) && this.#column > 0) this.#cells[this.#column - 1].text += character;
            else this.#cells[this.#column++] = { text: character, classes };
        }
    }

    /** `act` of AnsiParser: return, back, erase-0 (to the end), erase-1 (from the beginning), erase-2. */
    move(act) {
        const blank = { text: ' ', classes: '' };
        if (act === 'return') this.#column = 0;
        else if (act === 'back') this.#column = Math.max(0, this.#column - 1);
        else if (act === 'erase-0') this.#cells.length = Math.min(this.#cells.length, this.#column);
        else {
            this.#cells.fill(blank, 0, act === 'erase-1' ? this.#column + 1 : undefined);
            // The cursor stays where it is.
            if (act === 'erase-2') this.#cells = Array(this.#column).fill(blank);
        }
    }

    /** The line as [{text, classes}]. */
    get runs() {
        const runs = [];
        for (const { text, classes } of this.#cells) {
            const last = runs.at(-1);
            if (last?.classes === classes) last.text += text;
            else runs.push({ text, classes });
        }
        return runs;
    }
}
