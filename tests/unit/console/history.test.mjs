import assert from 'node:assert/strict';
import { test } from 'node:test';

import { History } from '../../../http/console/history.mjs';

test('what was asked comes back one by one, and at the end what was typed', () => {
    const history = new History();
    assert.equal(history.older(''), null);
    assert.equal(history.newer(), null);
    for (const text of ['a', 'b', 'b', 'c']) history.add(text);
    assert.equal(history.last, 'c');
    assert.deepEqual([history.older('typed'), history.older('c'), history.older('b'), history.older('a')], ['c', 'b', 'a', null]);
    assert.deepEqual([history.newer(), history.newer(), history.newer(), history.newer()], ['b', 'c', 'typed', null]);
    history.older('x');
    history.reset();
    assert.equal(history.newer(), null);
    assert.equal(history.older('y'), 'c');
});

test('only the newest are kept', () => {
    const history = new History();
    for (let i = 0; i < 300; ++i) history.add(`${i}`);
    let count = 0;
    while (history.older('') !== null) ++count;
    assert.equal(count, 200);
});
