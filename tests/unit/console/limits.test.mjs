import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { LIMITS, raiseQuestion, readForm, readNumber } from '../../../http/console/limits.mjs';

test('only the limits that were typed are asked for, and minutes become seconds', () => {
    assert.deepEqual(readForm({}, ''), {});
    assert.deepEqual(readForm({ memoryMb: ' 512 ', diskMb: '' }, '15'), { limits: { memoryMb: 512 }, idleSeconds: 900 });
});

test('the form has each limit of the server, in its order', async () => {
    const table = await readFile(new URL('../../../core/sandbox/limit_table.hpp', import.meta.url), 'utf8');
    assert.deepEqual(LIMITS.map(([name]) => name), [...table.matchAll(/LimitEntry\{\s*"(\w+)"/g)].map(([, name]) => name));
});

test('what is no number is told with the name of its field', () => {
    for (const text of ['0', '-1', '1.5', 'x', '1e3', '12345678901']) assert.throws(() => readNumber(text, 'Memory'), /^Error: Memory: a whole number/);
});

test('a limit that was met is raised, never lowered', () => {
    const { name, check, title } = raiseQuestion('memoryMb', 512);
    assert.equal(title, 'Raise the limit of memory');
    assert.equal(check(name), null);
    for (const text of ['512', '', 'x', '100']) assert.match(check(text), /above 512/);
});
