import assert from 'node:assert/strict';
import { test } from 'node:test';

import { addressOf, isWithin, join, nameOf, nameProblem, parentOf, relativePath, textOfName } from '../../../http/console/paths.mjs';

test('a path becomes an address that leads to the same bytes', () => {
    const bytes = (address) => Buffer.from(unescape(address), 'latin1');
    for (const [path, address] of [
        ['a/b.txt', 'a/b.txt'],
        ['a b/ü#?&.txt', 'a%20b/%C3%BC%23%3F%26.txt'],
        ['50%', '50%25'],
        ['%2541', '%2541'], // the name is %41
        ['%FF/x', '%FF/x'], // a byte that is no UTF-8
        ['line\nbreak', 'line%0Abreak'],
        ['', ''],
    ])
        assert.equal(addressOf(path), address);
    assert.deepEqual(bytes(addressOf('%FFä')), Buffer.from([0xff, 0xc3, 0xa4]));
    assert.equal(addressOf('\ud800'), '%EF%BF%BD');
});

test('a name as people type it keeps its characters', () => {
    assert.equal(addressOf(textOfName('%41')), '%2541');
    assert.equal(addressOf(textOfName('100%')), '100%25');
    assert.equal(addressOf(textOfName('ä')), '%C3%A4');
    assert.equal(textOfName('x\udc00'), 'x\ufffd');
});

test('paths are joined and taken apart', () => {
    assert.equal(join('', 'a'), 'a');
    assert.equal(join('a', 'b'), 'a/b');
    assert.equal(parentOf('a'), '');
    assert.equal(parentOf('a/b/c'), 'a/b');
    assert.equal(nameOf('a/b'), 'b');
    assert.ok(isWithin('a/b', 'a') && isWithin('a', 'a') && isWithin('x', ''));
    assert.ok(!isWithin('ab', 'a'));
    assert.equal(relativePath('/workspace/a/b'), 'a/b');
    assert.equal(relativePath('/workspace'), '');
    assert.equal(relativePath('./a/'), 'a');
    assert.equal(relativePath('/etc/passwd'), null);
});

test('what cannot be a name is said in words', () => {
    for (const bad of ['', '.', '..', 'a/b', 'a\0', 'ä'.repeat(128)]) assert.equal(typeof nameProblem(bad), 'string', bad);
    for (const good of ['a', '.env', '...', 'ä'.repeat(127), '<b>', 'a\nb']) assert.equal(nameProblem(good), null, good);
});
