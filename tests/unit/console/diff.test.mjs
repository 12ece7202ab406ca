import assert from 'node:assert/strict';
import { test } from 'node:test';

import { diffOf } from '../../../http/console/diff.mjs';

const marked = (before, after) => diffOf(before, after).lines.map(({ mark, text }) => mark + text);
const lines = (count, name = 'line') => Array.from({ length: count }, (_, index) => `${name} ${index}`);

test('a change is its lines and those around it', () => {
    assert.deepEqual(marked('a\nb\nc\n', 'a\nB\nc\n'), [' a', '-b', '+B', ' c']);
    assert.deepEqual(marked('', 'a\nb\n'), ['+a', '+b']);
    assert.deepEqual(marked('a', ''), ['-a']);
    assert.deepEqual(marked('a\n', 'a'), [' a']);
    assert.deepEqual(marked('a\r\n', 'a\n'), ['-a^M', '+a']);
});

test('changes that are far apart are two places', () => {
    const after = lines(50);
    after[10] = 'x';
    after.splice(40, 0, 'y');
    const shown = marked(lines(50).join('\n'), after.join('\n'));
    assert.deepEqual(shown.slice(0, 6), ['…7 unchanged lines', ' line 7', ' line 8', ' line 9', '-line 10', '+x']);
    assert.equal(shown.filter((line) => line.startsWith('…')).length, 3);
    assert.deepEqual(shown.filter((line) => '+-'.includes(line[0])), ['-line 10', '+x', '+y']);
});

test('any two texts can be put together again from their difference', () => {
    let seed = 1;
    const random = (count) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % count;
    const text = () => Array.from({ length: random(9) }, () => 'abc'[random(3)]);
    for (let round = 0; round < 3000; ++round) {
        const [before, after] = [text(), text()];
        const { lines: shown, added, removed } = diffOf(before.join('\n'), after.join('\n'));
        if (shown.some(({ mark }) => mark === '…')) continue;
        const without = (mark) => shown.filter((line) => line.mark !== mark).map((line) => line.text);
        assert.deepEqual([without('+'), without('-')], [before, after]);
        assert.equal(added - removed, after.length - before.length);
    }
});

test('a change within a long line is seen, and what is left out is told', () => {
    const [before, after] = [`${'x'.repeat(5000)}old${'y'.repeat(5000)}`, `${'x'.repeat(5000)}new!${'y'.repeat(5000)}`];
    const [removed, added] = marked(`a\n${before}\n`, `a\n${after}\n`).slice(1);
    assert.match(removed, /^-…x+oldy+… \(9503 characters are not shown\)$/);
    assert.match(added, /^\+…x+new!y+… \(9504 characters are not shown\)$/);
    assert.match(marked('x'.repeat(600), `${'x'.repeat(600)}end`)[1], /^\+…x+end \(103 characters are not shown\)$/);
    assert.match(marked('', 'x'.repeat(501))[0], /^\+x{500}… \(1 characters are not shown\)$/);
});

test('many differences together are each smaller', () => {
    const [before, after] = [lines(500, 'old').join('\n'), lines(500, 'new').join('\n')];
    const { lines: shown, hidden } = diffOf(before, after, 50);
    assert.deepEqual([shown.length, shown.filter(({ mark }) => mark === '+').length, hidden], [40, 20, 960]);
    assert.equal(diffOf(before, after, 4).lines.length, 100);
});

test('a difference of any size is bounded, and shows both sides', () => {
    const { lines: shown, added, removed, hidden } = diffOf(lines(20_000, 'old').join('\n'), lines(30_000, 'new').join('\n'));
    assert.deepEqual([added, removed, hidden], [30_000, 20_000, 50_000 - 400]);
    assert.deepEqual([shown.length, shown.filter(({ mark }) => mark === '+').length], [400, 200]);
    assert.ok(diffOf('', 'x'.repeat(1_000_000)).lines[0].text.length < 600);
});
