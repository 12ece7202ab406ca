import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readPages } from '../../../http/console/list.mjs';

test('a list is read page by page up to a bound, or to its end', async () => {
    const asked = [];
    const read = async (cursor) => {
        asked.push(cursor);
        const at = cursor ?? 0;
        return { conversations: [`c${at}`], next: at === 2 ? null : at + 1 };
    };
    assert.deepEqual(await readPages(read, 1), { conversations: ['c0'], next: 1 });
    assert.deepEqual(await readPages(read, 2), { conversations: ['c0', 'c1'], next: 2 });
    asked.length = 0;
    // A search does so.
    assert.deepEqual(await readPages(read, 20), { conversations: ['c0', 'c1', 'c2'], next: null });
    assert.deepEqual(asked, [undefined, 1, 2]);
});
