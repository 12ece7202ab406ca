import assert from 'node:assert/strict';
import { test } from 'node:test';

import { AnsiParser, harmless } from '../../../http/console/ansi.mjs';

const styled = (text) => new AnsiParser().feed(text);
const shown = (text) => harmless(text);

test('plain text, tabs and line breaks pass as they are', () => {
    assert.deepEqual(styled('a\tb\nc ü 漢 😀'), [{ text: 'a\tb\nc ü 漢 😀', classes: '' }]);
    assert.deepEqual(styled(''), []);
});

test('colours and attributes become classes, and end', () => {
    assert.deepEqual(styled('\x1b[1;31mred\x1b[0m plain \x1b[4mline\x1b[24m'), [
        { text: 'red', classes: 'a-bold a-f1' },
        { text: ' plain ', classes: '' },
        { text: 'line', classes: 'a-underline' },
    ]);
    assert.equal(styled('\x1b[96;44mx')[0].classes, 'a-f14 a-b4');
    assert.equal(styled('\x1b[31m\x1b[39mx')[0].classes, '');
    assert.equal(styled('\x1b[mx')[0].classes, '');
});

test('256 and direct colours become the nearest of the 16', () => {
    assert.equal(styled('\x1b[38;5;9mx')[0].classes, 'a-f9');
    assert.equal(styled('\x1b[38;5;196mx')[0].classes, 'a-f9');
    assert.equal(styled('\x1b[38;2;0;0;255mx')[0].classes, 'a-f12');
    assert.equal(styled('\x1b[48;2;10;10;10mx')[0].classes, 'a-b0');
    assert.equal(styled('\x1b[38;5;999;1mx')[0].classes, 'a-bold');
    assert.equal(styled('\x1b[38;2mx')[0].classes, 'a-f0');
});

test('text in the colour of its background stays readable', () => {
    assert.equal(styled('\x1b[30;40mhidden?')[0].classes, 'a-f0');
    assert.equal(styled('\x1b[8mhidden?')[0].classes, '');
});

test('every other escape sequence is dropped', () => {
    for (const sequence of [
        '\x1b[2J', '\x1b[H', '\x1b[10;20H', '\x1b[?25l', '\x1b[?1049h', '\x1b[6n', '\x1b[>4;1m', '\x1b(B', '\x1b#8', '\x1bc', '\x1b7',
        '\x1b]0;title\x07', '\x1b]0;title\x1b\\', '\x1b]8;;javascript:alert(1)\x1b\\', '\x1b]52;c;aGk=\x07', '\x1bPq#0\x1b\\', '\x1b_x\x1b\\',
        '\x1b^x\x1b\\', '\x1bXx\x1b\\',
    ])
        assert.equal(shown(`a${sequence}b`), 'ab', JSON.stringify(sequence));
});

test('a sequence cut anywhere means the same', () => {
    const text = 'a\x1b[1;31mred\x1b[0m\x1b]0;title\x1b\\ b\r\nc 😀';
    const whole = styled(text);
    for (let cut = 0; cut <= text.length; ++cut) {
        const parser = new AnsiParser();
        const runs = [...parser.feed(text.slice(0, cut)), ...parser.feed(text.slice(cut))];
        const join = (list) => list.map((run) => [...run.text].map((c) => `${run.classes}:${c}`).join()).join();
        assert.equal(join(runs), join(whole), `cut at ${cut}`);
    }
});

test('a sequence without end does not swallow what follows', () => {
    assert.equal(shown(`\x1b]0;never\nseen`), '\nseen');
    assert.ok(shown(`\x1b]0;${'x'.repeat(10_000)}end`).endsWith('end'));
    assert.ok(shown(`\x1b[${'1;'.repeat(10_000)}end`).endsWith('end'));
    assert.equal(shown('\x1b[31\nx'), '\nx');
    assert.equal(shown('\x1b\x1b[31mx'), 'x');
});

test('characters that hide, ring or reorder are shown by name', () => {
    assert.equal(shown('a\x07bc\x00d\x7f'), 'a^Gbc^@d^?');
    assert.equal(shown('\u202edcba\u202c'), '<U+202E>dcba<U+202C>');
    assert.equal(shown('\u2066x\u2069\u200f\u061c'), '<U+2066>x<U+2069><U+200F><U+061C>');
    assert.equal(shown('\u009b31mx\u0085'), '<U+009B>31mx<U+0085>');
    assert.equal(shown('\u2028\ufeff\u{e0041}'), '<U+2028><U+FEFF><U+E0041>');
    assert.equal(shown('\ud800x\udc00'), '\ufffdx\ufffd');
    assert.equal(styled('\u202e')[0].classes, 'a-control');
});

test('what moves in the last line is told apart from text', () => {
    const acts = (text) => styled(text).map(({ act, text: piece }) => act ?? piece);
    assert.deepEqual(acts('10%\r20%\r\nend'), ['10%', 'return', '20%', 'return', '\nend']);
    assert.deepEqual(acts('a\b\x1b[Kb\x1b[1K\x1b[2Kc'), ['a', 'back', 'erase-0', 'b', 'erase-1', 'erase-2', 'c']);
    assert.deepEqual(acts('a\x1b[7Kb\x1b[2Jc'), ['abc']);
});

test('one harmless string keeps what a line was written over with', () => {
    assert.equal(harmless('10%\r20%\r\nend\b'), '10%\n20%\nend^H');
});

test('a megabyte takes no time to speak of', () => {
    const began = performance.now();
    styled('\x1b[31mx\x1b[0my\u202e'.repeat(70_000));
    styled('x'.repeat(1_000_000));
    const took = performance.now() - began;
    // Squares of these lengths take minutes. The bound itself is no part of the gate.
    if (process.env.ATOLL_TEST_FULL === '1') assert.ok(took < 5000);
});
