// The difference of two texts, line by line, with a few unchanged lines around each change. Pure and bounded.

const CONTEXT = 3; // unchanged lines before and after a change
const MAX_STEPS = 400; // of the search; texts that differ in more lines are shown as one removed and one added
const MAX_LINES = 400;
const MIN_LINES = 40; // of one difference among many
const MAX_LINE = 500; // characters
const LEAD = 100; // characters before the first one that differs

function linesOf(text) {
    const lines = text.replaceAll('\r', '^M').split('\n');
    if (lines.at(-1) === '') lines.pop();
    return lines;
}

const MIDDLE = MAX_STEPS + 1; // the place of diagonal 0
const isDown = (steps, diagonal, ends) => diagonal === -steps || (diagonal !== steps && ends[MIDDLE + diagonal - 1] < ends[MIDDLE + diagonal + 1]);

/** The changes that make `b` of `a` (Myers), as runs {mark, lines}; one replacement where they are more than `maxSteps`. */
function changesOf(a, b, maxSteps) {
    const ends = new Int32Array(2 * MIDDLE + 1); // by diagonal: how far in `a` the changes so far lead
    const trace = []; // of `ends`, before each step
    for (let steps = 0; a.length > 0 && b.length > 0 && steps <= maxSteps; ++steps) {
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

/** The part of a long line around the first character that differs from `other`, the line in its place. */
function shortened(text, other = text) {
    if (text.length <= MAX_LINE) return text;
    let same = 0;
    while (same < text.length && text[same] === other[same]) ++same;
    const from = same === text.length ? 0 : Math.max(0, Math.min(same - LEAD, text.length - MAX_LINE));
    const to = from + MAX_LINE;
    return `${from > 0 ? '…' : ''}${text.slice(from, to)}${to < text.length ? '…' : ''} (${text.length - MAX_LINE} characters are not shown)`;
}

const OTHER = { '+': '-', '-': '+' };

/**
 * {lines: [{mark, text}], added, removed, hidden}: `mark` is '+', '-', ' ', or '…' for unchanged lines that are left out; `hidden` counts
 * changed lines beyond those that are shown. `share`: how many differences are shown together; each is the smaller for it.
 */
export function diffOf(before, after, share = 1) {
    const maxLines = Math.max(MIN_LINES, Math.floor(MAX_LINES / share));
    const maxRun = Math.floor(maxLines / 2); // of removed lines, or of added ones, in a row
    const [a, b] = [linesOf(before), linesOf(after)];
    let head = 0;
    while (head < a.length && head < b.length && a[head] === b[head]) ++head;
    let tail = 0;
    while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) ++tail;
    const middle = changesOf(a.slice(head, a.length - tail), b.slice(head, b.length - tail), Math.floor(MAX_STEPS / Math.sqrt(share)));
    const all = [{ mark: ' ', lines: a.slice(0, head) }, ...middle, { mark: ' ', lines: a.slice(a.length - tail) }];
    const diff = { lines: [], added: 0, removed: 0, hidden: 0 };
    const put = (mark, text) => {
        if (diff.lines.length < maxLines) diff.lines.push({ mark, text });
        else if (mark === '+' || mark === '-') ++diff.hidden;
    };
    all.forEach(({ mark, lines }, index) => {
        if (mark === '+') diff.added += lines.length;
        if (mark === '-') diff.removed += lines.length;
        const first = index === 0 ? 0 : CONTEXT;
        const last = index === all.length - 1 ? 0 : CONTEXT;
        const left = mark === ' ' ? lines.length - first - last : 0;
        const isWhole = left < 2;
        if (isWhole) diff.hidden += Math.max(0, lines.length - maxRun);
        const others = [all[index - 1], all[index + 1]].find((one) => one?.mark === OTHER[mark])?.lines ?? [];
        lines.slice(0, isWhole ? maxRun : first).forEach((text, place) => put(mark, shortened(text, others[place])));
        if (isWhole) return;
        put('…', `${left} unchanged lines`);
        for (const text of lines.slice(lines.length - last)) put(mark, shortened(text));
    });
    return diff;
}
