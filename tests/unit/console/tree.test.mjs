import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Tree } from '../../../http/console/tree.mjs';

const folder = (href) => ({ href, type: 'directory', size: 0 });
const file = (href, size = 1) => ({ href, type: 'file', size });
const shown = (tree) => tree.rows().map(({ path, level, note }) => (path === undefined ? `${level}: ${note}` : path));

function sample() {
    const tree = new Tree();
    tree.listed('', [file('b10'), folder('src'), file('b9'), folder('a')]);
    tree.open('src');
    tree.listed('src', [file('src/main.c'), folder('src/lib')]);
    return tree;
}

test('folders come first, and names with numbers as people count', () => {
    assert.deepEqual(shown(sample()), ['a', 'src', 'src/lib', 'src/main.c', 'b9', 'b10']);
});

test('names are shown as they are, and those that look the same are apart', () => {
    const tree = new Tree();
    tree.listed('', [folder('d%FF'), folder('d%FE'), file('50%2520off'), file('50%20off'), file('%2541')]);
    assert.deepEqual(shown(tree), ['d%FE', 'd%FF', '%2541', '50%20off', '50%2520off']);
    assert.deepEqual(tree.rows().map(({ name }) => name), ['d\ufffd', 'd\ufffd', '%41', '50 off', '50%20off']);
    tree.open('d%FF');
    tree.listed('d%FF', [file('d%FF/x%FE')]);
    assert.deepEqual(shown(tree).slice(0, 3), ['d%FE', 'd%FF', 'd%FF/x%FE']);
    assert.equal(tree.isFolder('d%FF'), true);
    assert.equal(tree.find('d%FF/x%FE').name, 'x\ufffd');
});

test('an entry of which a sandbox says an address that leads elsewhere is left out', () => {
    const tree = new Tree();
    tree.listed('', [file('a'), file('..'), file('%2e%2e/%2e%2e'), file('b?x'), { type: 'file', name: 'old', size: 1 }]);
    assert.deepEqual(shown(tree), ['a']);
    // Wherever it says that the file lies, it is in the folder that was listed.
    tree.open('d');
    tree.listed('', [folder('d')]);
    tree.listed('d', [file('elsewhere/f')]);
    assert.deepEqual(shown(tree), ['d', 'd/f']);
});

test('what is not known yet, empty, failed or cut is said', () => {
    const tree = new Tree();
    assert.deepEqual(shown(tree), ['1: Reading…']);
    tree.listed('', []);
    assert.deepEqual(shown(tree), ['1: The workspace is empty.']);
    tree.listed('', [folder('a')], true);
    tree.open('a');
    assert.deepEqual(shown(tree), ['a', '2: Reading…', '1: There are more entries than are shown.']);
    tree.failed('a', 'no');
    assert.deepEqual(shown(tree), ['a', '2: no', '1: There are more entries than are shown.']);
});

test('only open folders whose parents are open are to be read', () => {
    const tree = sample();
    tree.open('src/lib');
    assert.deepEqual(tree.openFolders(), ['', 'src', 'src/lib']);
    tree.close('src');
    assert.deepEqual(tree.openFolders(), ['']);
    tree.open('src');
    assert.deepEqual(tree.openFolders(), ['', 'src/lib', 'src']);
});

test('what is gone is forgotten with all below it', () => {
    const tree = sample();
    tree.open('src/lib');
    tree.listed('src/lib', [file('src/lib/x')]);
    tree.select('src/lib/x');
    tree.listed('', [folder('a')]);
    assert.deepEqual(shown(tree), ['a']);
    assert.equal(tree.selected, null);
    assert.deepEqual(tree.openFolders(), ['']);
    // It comes back closed, also as a file.
    tree.listed('', [file('src')]);
    assert.equal(tree.isFolder('src'), false);
});

test('a listing keeps what is open elsewhere', () => {
    const tree = sample();
    tree.select('src/main.c');
    tree.listed('', [folder('src'), folder('srcs')]);
    assert.deepEqual(shown(tree), ['src', 'src/lib', 'src/main.c', 'srcs']);
    assert.equal(tree.selected, 'src/main.c');
    tree.close('src');
    assert.equal(tree.selected, 'src');
});

test('the keys of a tree lead where people expect', () => {
    const tree = sample();
    assert.deepEqual(tree.key('ArrowDown'), { select: 'a' });
    assert.equal(tree.key('ArrowUp'), null);
    tree.select('src');
    assert.deepEqual(tree.key('ArrowRight'), { select: 'src/lib' });
    assert.deepEqual(tree.key('ArrowLeft'), { close: 'src' });
    tree.select('src/lib');
    assert.deepEqual(tree.key('ArrowRight'), { open: 'src/lib' });
    assert.deepEqual(tree.key('ArrowLeft'), { select: 'src' });
    assert.deepEqual(tree.key('End'), { select: 'b10' });
    assert.deepEqual(tree.key('Home'), { select: 'a' });
    tree.select('b9');
    assert.equal(tree.key('ArrowRight'), null);
    assert.equal(tree.key('ArrowLeft'), null);
    assert.equal(tree.key('x'), null);
    assert.equal(new Tree().key('ArrowDown'), null);
});

test('new entries go to the folder that is selected, or that the selected file is in', () => {
    const tree = sample();
    assert.equal(tree.targetFolder(), '');
    tree.select('src');
    assert.equal(tree.targetFolder(), 'src');
    tree.select('src/main.c');
    assert.equal(tree.targetFolder(), 'src');
    tree.select('b9');
    assert.equal(tree.targetFolder(), '');
});

test('a link is not entered', () => {
    const tree = new Tree();
    tree.listed('', [{ href: 'l', type: 'symlink', size: 3, target: '/etc' }]);
    assert.equal(tree.isFolder('l'), false);
    assert.equal(tree.rows()[0].target, '/etc');
    assert.equal(tree.rows()[0].isOpen, undefined);
});
