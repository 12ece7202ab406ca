import assert from 'node:assert/strict';
import { test } from 'node:test';

import { hrefOf, isWithin, join, nameOf, nameProblem, parentOf, shownName, shownPath, soundHref } from '../../../http/console/paths.mjs';

test('a path as people type it becomes an href that leads to its characters and back', () => {
    for (const [path, href] of [
        ['a/b.txt', 'a/b.txt'],
        ['a b/ü#?&.txt', 'a%20b/%C3%BC%23%3F%26.txt'],
        ['50%', '50%25'],
        ['50%20off', '50%2520off'],
        ['%41', '%2541'],
        ["it's (1)!*~", 'it%27s%20%281%29%21%2A~'], // as the server writes it
        ['line\nbreak', 'line%0Abreak'],
        ['\ufeffbom', '%EF%BB%BFbom'],
        ['', ''],
    ]) {
        assert.equal(hrefOf(path), href);
        assert.equal(shownPath(href), path);
        if (href !== '') assert.equal(soundHref(href), href);
    }
    assert.equal(hrefOf('x\udc00'), 'x%EF%BF%BD');
});

test('bytes that are not UTF-8 are shown as U+FFFD', () => {
    assert.equal(shownPath('%FFa/b%C3'), '\ufffda/b\ufffd');
    assert.equal(shownName('%FFa/b%C3'), 'b\ufffd');
    assert.equal(shownPath('%FF%FE'), '\ufffd\ufffd');
    assert.equal(shownPath('%E2%82'), '\ufffd');
});

test('what a sandbox says of a path becomes no other address', () => {
    for (const bad of ['', '/etc', 'a//b', 'a/', '..', '../x', 'a/../../x', 'a/%2e%2E/x', './a', 'a\\..\\x', 'a?b', 'a#b', 'a b', 'ä', 'a%', 'a%4', 'a%zz', 7, null, undefined])
        assert.equal(soundHref(bad), null, String(bad));
    // Each byte has a single form, so that the same file has one place in the tree.
    assert.equal(soundHref('%41%ff/%2d%7E%2f'), 'A%FF/-~%2F');
});

test('paths are joined and taken apart', () => {
    assert.equal(join('', 'a'), 'a');
    assert.equal(join('a', 'b'), 'a/b');
    assert.equal(parentOf('a'), '');
    assert.equal(parentOf('a/b/c'), 'a/b');
    assert.equal(nameOf('a/b'), 'b');
    assert.ok(isWithin('a/b', 'a') && isWithin('a', 'a') && isWithin('x', ''));
    assert.ok(!isWithin('ab', 'a'));
});

test('what cannot be a name is said in words', () => {
    for (const bad of ['', '.', '..', 'a/b', 'a\0', 'ä'.repeat(128)]) assert.equal(typeof nameProblem(bad), 'string', bad);
    for (const good of ['a', '.env', '...', 'ä'.repeat(127), '<b>', 'a\nb']) assert.equal(nameProblem(good), null, good);
});
