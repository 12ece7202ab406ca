import assert from 'node:assert/strict';
import { test } from 'node:test';

import { startersOf } from '../../../http/console/starters.mjs';

const conversation = { agent: 'shell', limits: { memoryMb: 2048 }, preview: { ports: [8080] }, sandboxPublicUrl: 'http://preview-a.localhost/' };
const labels = (changes) => startersOf({ ...conversation, ...changes }).map(({ label }) => label);

test('an empty conversation offers to look around, to serve a page, and to meet its own limit', () => {
    assert.deepEqual(labels({}), ['Show where I am', 'Serve a page', 'Use 3 GB and meet the limit']);
    assert.equal(labels({ limits: { memoryMb: 512 } })[2], 'Use 1 GB and meet the limit');
    const [, page, memory] = startersOf(conversation);
    assert.match(page.text, /http\.server 8080 /);
    assert.match(memory.text, /head -c 3G/);
});

test('what this sandbox has not is not offered', () => {
    assert.deepEqual(labels({ sandboxPublicUrl: null, limits: {} }), ['Show where I am']);
    assert.equal(labels({ preview: { ports: [] } }).includes('Serve a page'), false);
});

test('an agent that is no shell is asked in words', () => {
    for (const { text } of startersOf({ ...conversation, agent: 'assistant' })) assert.match(text, /^[A-Z].*[.?]$/);
});
