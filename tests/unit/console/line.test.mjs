import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Line, MAX_CELLS } from '../../../http/console/line.mjs';

/// The text that a line shows after these, each a text or an act.
function shown(...all) {
    const line = new Line();
    for (const one of all) {
        if (/^(return|back|erase-\d)$/.test(one)) line.move(one);
        else line.write(one, '');
    }
    return line.runs.map(({ text }) => text).join('');
}

test('a line is written over from its beginning, and what is longer stays', () => {
    assert.equal(shown('10 %', 'return', '20 %'), '20 %');
    assert.equal(shown('a long one', 'return', 'short'), 'shortg one');
    assert.equal(shown('a long one', 'return', 'short', 'erase-0'), 'short');
});

test('a backspace goes back by one, and not beyond the beginning', () => {
    assert.equal(shown('abc', 'back', 'back', 'X'), 'aXc');
    assert.equal(shown('a', 'back', 'back', 'back', 'b'), 'b');
});

test('a part of the line is erased', () => {
    assert.equal(shown('abcdef', 'back', 'back', 'erase-1', 'X'), '    Xf');
    assert.equal(shown('abc', 'erase-2', 'd'), '   d');
    assert.equal(shown('abc', 'return', 'erase-2', 'd'), 'd');
});

test('a character of several parts is one cell, and each cell keeps its style', () => {
    assert.equal(shown('e\u0301x', 'back', 'back', 'o'), 'ox');
    assert.equal(shown('😀x', 'return', 'y'), 'yx');
    const line = new Line([{ text: 'ab', classes: 'a-f1' }]);
    line.move('return');
    line.write('c', 'a-f2');
    assert.deepEqual(line.runs, [{ text: 'c', classes: 'a-f2' }, { text: 'b', classes: 'a-f1' }]);
});

test('a line is bounded', () => {
    const line = new Line();
    line.write('x'.repeat(3 * MAX_CELLS), '');
    assert.equal(line.isFull, true);
    assert.ok(line.runs[0].text.length <= MAX_CELLS + 1);
});
