// The elements of the transcript, bounded: the oldest is dropped first.

/** The weight of a node, in characters. */
export const NODE_COST = 64;
const MAX_COST = 3 * 1024 * 1024; // characters in the page

// True for an element that holds nothing any more, and gets nothing more.
function isSpent(element) {
    if (element.classList.contains('turn'))
        return element.dataset.over === '1' && element.querySelector('.chunk, .error, .fold, .incident, .note, .plan, figure') === null;
    return element.childElementCount === 0 && !element.classList.contains('answer');
}

/** The elements in the page, oldest first, and how much they weigh. */
export class Pieces {
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
            const piece = this.#all[this.#from];
            this.#all[this.#from++] = null;
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
