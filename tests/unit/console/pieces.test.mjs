import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { Pieces } from '../../../http/console/pieces.mjs';

test('what is dropped from the page is held no more, what is shown is', async () => {
    setFlagsFromString('--expose-gc');
    const pieces = new Pieces();
    const parent = { id: 'turns' };
    const added = Array.from({ length: 3 }, () => {
        const element = { parentElement: parent, remove: () => {} };
        pieces.add(element, 2 * 1024 * 1024);
        return new WeakRef(element);
    });
    pieces.trim();
    // A reference that was made in this task is kept until its end.
    await setImmediate();
    runInNewContext('gc')();
    assert.deepEqual(added.map((element) => element.deref() !== undefined), [false, false, true]);
    assert.ok(pieces.add({ parentElement: parent, remove: () => {} }));
});
