// The difference of two texts, line by line, with a few unchanged lines around each change. Pure and bounded.

const CONTEXT = 3; // unchanged lines before and after a change
const MAX_STEPS = 400; // of the search; texts that differ in more lines are shown as one removed and one added
const MAX_LINES = 400;
const MAX_RUN = MAX_LINES / 2; // of removed lines, or of added ones, in a row
const MAX_LINE = 500; // characters

function linesOf(text) {
    const lines = text.replaceAll('\r', '^M').split('\n');
    if (lines.at(-1) === '') lines.pop();
    return lines;
}

const MIDDLE = MAX_STEPS + 1; // the place of diagonal 0
const isDown = (steps, diagonal, ends) => diagonal === -steps || (diagonal !== steps && ends[MIDDLE + diagonal - 1] < ends[MIDDLE + diagonal + 1]);

/** The changes that make `b` of `a` (Myers), as runs {mark, lines}; one replacement where they are many. */
function changesOf(a, b) {
    const ends = new Int32Array(2 * MIDDLE + 1); // by diagonal: how far in `a` the changes so far lead
    const trace = []; // of `ends`, before each step
    for (let steps = 0; a.length > 0 && b.length > 0 && steps <= MAX_STEPS; ++steps) {
        trace.push(ends.slice());
        for (let diagonal = -steps; diagonal <= steps; diagonal += 2) {
            let x = isDown(steps, diagonal, ends) ? ends[MIDDLE + diagonal + 1] : ends[MIDDLE + diagonal - 1] + 1;
            while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) ++x;
            ends[MIDDLE + diagonal] = x;
            if (x >= a.length && x - diagonal >= b.length) return runsOf(a, b, trace);
        }
    }
    return [{ mark: '-', lines: a }, { mark: '+', lines: b }];
}

// From the end back to the beginning.
function runsOf(a, b, trace) {
    const runs = [];
    const add = (mark, line) => {
        if (runs.at(-1)?.mark !== mark) runs.push({ mark, lines: [] });
        runs.at(-1).lines.push(line);
    };
    let [x, y] = [a.length, b.length];
    for (let steps = trace.length - 1; steps > 0; --steps) {
        const down = isDown(steps, x - y, trace[steps]);
        const startX = trace[steps][MIDDLE + x - y + (down ? 1 : -1)];
        for (const end = down ? startX : startX + 1; x > end; --y) add(' ', a[--x]);
        if (down) add('+', b[--y]);
        else add('-', a[--x]);
    }
    for (const { lines } of runs) lines.reverse();
    return runs.reverse();
}

/**
 * {lines: [{mark, text}], added, removed, hidden}: `mark` is '+', '-', ' ', or '…' for unchanged lines that are left out; `hidden` counts
 * changed lines beyond those that are shown.
 */
export function diffOf(before, after) {
    const [a, b] = [linesOf(before), linesOf(after)];
    let head = 0;
    while (head < a.length && head < b.length && a[head] === b[head]) ++head;
    let tail = 0;
    while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) ++tail;
    const middle = changesOf(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
    const all = [{ mark: ' ', lines: a.slice(0, head) }, ...middle, { mark: ' ', lines: a.slice(a.length - tail) }];
    const diff = { lines: [], added: 0, removed: 0, hidden: 0 };
    const put = (mark, text) => {
        if (diff.lines.length < MAX_LINES) diff.lines.push({ mark, text: text.length <= MAX_LINE ? text : `${text.slice(0, MAX_LINE)}…` });
        else if (mark === '+' || mark === '-') ++diff.hidden;
    };
    all.forEach(({ mark, lines }, index) => {
        if (mark === '+') diff.added += lines.length;
        if (mark === '-') diff.removed += lines.length;
        const first = index === 0 ? 0 : CONTEXT;
        const last = index === all.length - 1 ? 0 : CONTEXT;
        const left = mark === ' ' ? lines.length - first - last : 0;
        const isWhole = left < 2;
        if (isWhole) diff.hidden += Math.max(0, lines.length - MAX_RUN);
        for (const text of lines.slice(0, isWhole ? MAX_RUN : first)) put(mark, text);
        if (isWhole) return;
        put('…', `${left} unchanged lines`);
        for (const text of lines.slice(lines.length - last)) put(mark, text);
    });
    return diff;
}
