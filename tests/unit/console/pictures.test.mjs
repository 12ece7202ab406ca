import assert from 'node:assert/strict';
import { test } from 'node:test';

import { pictureOf } from '../../../http/console/content.mjs';
import { Pictures, picturesOf } from '../../../http/console/pictures.mjs';

const at = (seconds) => `2026-01-31T09:00:${String(seconds).padStart(2, '0')}.000Z`;
const ms = (seconds) => Date.parse(at(seconds));
const file = (path, seconds, more = {}) => ({ path, href: path, type: 'file', size: 100, mtime: at(seconds), etag: `"${path}${seconds}"`, ...more });
const turns = new Map([['t1', { from: ms(10), to: ms(20) }], ['t2', { from: ms(30), to: null }]]);
const found = (...entries) => picturesOf(entries, turns).map(({ turn, entry }) => `${turn} ${entry.path}`);

test('a picture belongs to the turn in which it was written', () => {
    assert.deepEqual(found(file('a.png', 5), file('b.PNG', 12), file('c.svg', 25), file('d.jpeg', 40), file('e.txt', 12)), ['t2 d.jpeg', 't1 b.PNG']);
});

test('what is no file, hidden, of a package, empty or too large is left out', () => {
    assert.deepEqual(found(file('a.png', 12, { type: 'symlink' }), file('.cache/a.png', 12), file('x/node_modules/y.png', 12), file('b.png', 12, { size: 0 }), file('c.png', 12, { size: 2 ** 21 })), []);
});

test('of a turn with many pictures the newest few are shown', () => {
    const many = Array.from({ length: 9 }, (_, index) => file(`${index}.png`, 11 + index));
    assert.deepEqual(found(...many), ['t1 8.png', 't1 7.png', 't1 6.png', 't1 5.png']);
});

const PNG = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);

test('a picture is told by its bytes, an SVG by its name and text', () => {
    assert.equal(pictureOf('a.svg', PNG, true).type, 'image/png');
    const svg = new TextEncoder().encode('<svg xmlns="http://www.w3.org/2000/svg"/>');
    assert.equal(pictureOf('a.svg', svg, true).type, 'image/svg+xml');
    assert.equal(pictureOf('a.png', svg, true), null);
    assert.equal(pictureOf('a.svg', svg, false), null);
    assert.equal(pictureOf('a.svg', new TextEncoder().encode('text'), true), null);
});

const makePictures = (files, shown = [], mayLook = () => true) =>
    new Pictures(files, (turn, { path, type }) => shown.push(`${turn} ${path} ${type}`), mayLook, new AbortController().signal);

test('each picture is read once, and again when it has changed', async () => {
    const read = [];
    const shown = [];
    let entries = [file('a.png', 12)];
    const files = {
        top: async () => entries,
        read: async (path) => {
            read.push(path);
            return { bytes: PNG, isWhole: true };
        },
    };
    const pictures = makePictures(files, shown);
    await pictures.look();
    assert.deepEqual(read, [], 'there is no turn yet');
    pictures.begin('t1', at(10));
    pictures.end('t1', at(20));
    await pictures.look();
    await pictures.look();
    assert.deepEqual(shown, ['t1 a.png image/png']);
    entries = [file('a.png', 12), file('b.png', 33)];
    pictures.begin('t2', at(30));
    pictures.end('t2', at(40));
    await pictures.look();
    assert.deepEqual(read, ['a.png', 'b.png']);
    entries = [file('a.png', 13), file('b.png', 33)];
    pictures.end('t2', at(40));
    await pictures.look();
    assert.deepEqual(read, ['a.png', 'b.png', 'a.png']);
});

test('a look begins where a turn has ended, and nowhere else, as it keeps the sandbox from idling', async () => {
    let asked = 0;
    const files = { top: async () => (++asked, []) };
    const pictures = makePictures(files);
    pictures.begin('t1', at(10));
    await pictures.look();
    assert.equal(asked, 0);
    pictures.end('t1', at(20));
    await pictures.look();
    await pictures.look();
    assert.equal(asked, 1);
    pictures.end('t1', at(20));
    pictures.reset();
    await pictures.look();
    assert.equal(asked, 1);
});

test('a sandbox that rests is not asked, and one that comes to rest is asked no further until it runs', async () => {
    const asked = [];
    let runs = false;
    const files = {
        top: async () => {
            asked.push('list');
            return [file('a.png', 12), file('b.png', 13)];
        },
        read: async (path) => {
            asked.push(path);
            runs = false;
            return { bytes: PNG, isWhole: true };
        },
    };
    const shown = [];
    const pictures = makePictures(files, shown, () => runs);
    pictures.begin('t1', at(10));
    pictures.end('t1', at(20));
    await pictures.look();
    assert.deepEqual(asked, []);
    runs = true;
    await pictures.look();
    assert.deepEqual(asked, ['list', 'a.png']);
    runs = true;
    await pictures.look();
    assert.deepEqual(asked, ['list', 'a.png', 'list', 'b.png']);
    assert.deepEqual(shown, ['t1 a.png image/png', 't1 b.png image/png']);
});
