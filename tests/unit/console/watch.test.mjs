import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError } from '../../../http/console/api.mjs';
import { foldersOf, Watch } from '../../../http/console/watch.mjs';

const settled = () => new Promise((done) => setImmediate(done));

// Timers that the test lets go off.
function fakeTimers() {
    const waiting = new Map();
    let next = 1;
    return {
        set(act, ms) {
            waiting.set(next, { act, ms });
            return next++;
        },
        clear: (handle) => waiting.delete(handle),
        waiting,
        async fire() {
            for (const [handle, { act }] of [...waiting]) {
                waiting.delete(handle);
                act();
            }
            for (let i = 0; i < 10; ++i) await settled();
        },
    };
}

// A stream of events that the test writes.
function fakeStream() {
    let controller;
    const body = new ReadableStream({ start: (given) => (controller = given) });
    return {
        response: new Response(body, { headers: { 'Content-Type': 'text/event-stream' } }),
        say: (value) => controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(value)}\n\n`)),
        end: () => controller.close(),
    };
}

function follow(open, mayPoll = () => true) {
    const timers = fakeTimers();
    const told = [];
    const watch = new Watch({ open, changed: (folders) => told.push(folders), mayPoll, timers });
    watch.start();
    return { watch, timers, told };
}

const changes = (...all) => ({ type: 'changes', changes: all });
const created = (href) => changes({ change: 'created', path: 'as people see it', href, directory: false });

test('changes name the folders that they are in, and a rescan means any', () => {
    assert.deepEqual(foldersOf(created('a/b')), ['a', 'a/b']);
    assert.deepEqual(foldersOf(changes({ change: 'renamed', path: 'a/x', href: 'a/%FF', to: 'b/y', toHref: 'b/y' })), ['a', 'a/%FF', 'b', 'b/y']);
    assert.deepEqual(foldersOf(created('x')), ['', 'x']);
    for (const frame of [{ type: 'started' }, { type: 'rescan' }, { type: 'later' }, created('/etc/x'), created('../x'), created(7), created(undefined)]) assert.equal(foldersOf(frame), null);
    for (const frame of [{ type: 'paused' }, { type: 'incomplete', directories: 3 }, { type: 'stream_closed', code: 'sandbox_gone' }]) assert.deepEqual(foldersOf(frame), []);
});

test('changes that come together are told together', async () => {
    const stream = fakeStream();
    const { timers, told } = follow(async () => stream.response);
    stream.say(created('a/b'));
    stream.say(changes({ change: 'modified', path: 'a/b', href: 'a/b' }));
    for (let i = 0; i < 10; ++i) await settled();
    assert.deepEqual(told, []);
    await timers.fire();
    assert.deepEqual(told, [['a', 'a/b']]);
    stream.say(created('x'));
    stream.say({ type: 'rescan' });
    for (let i = 0; i < 10; ++i) await settled();
    await timers.fire();
    assert.deepEqual(told[1], null);
});

test('a stream that ends is followed again, and what it missed is looked for', async () => {
    const streams = [fakeStream(), fakeStream()];
    let opened = 0;
    const { timers, told } = follow(async () => streams[opened++].response);
    await settled();
    streams[0].end();
    for (let i = 0; i < 10; ++i) await settled();
    await timers.fire(); // the next one
    assert.equal(opened, 2);
    assert.deepEqual(told, []);
    streams[1].say({ type: 'started' });
    for (let i = 0; i < 10; ++i) await settled();
    await timers.fire(); // the telling
    assert.deepEqual(told, [null]);
});

test('where a watch does not cover all folders the listing is looked at, too, while that costs nothing', async () => {
    let may = false;
    const stream = fakeStream();
    const { timers, told, watch } = follow(async () => stream.response, () => may);
    stream.say({ type: 'incomplete', directories: 1 });
    stream.say({ type: 'incomplete', directories: 2 });
    for (let i = 0; i < 10; ++i) await settled();
    assert.equal(timers.waiting.size, 1);
    await timers.fire();
    assert.deepEqual(told, []);
    may = true;
    await timers.fire();
    assert.deepEqual(told, [null]);
    watch.stop();
    assert.equal(timers.waiting.size, 0);
});

test('the watch of a sandbox that is gone opens nothing more', async () => {
    const { timers, told } = follow(async () => { throw new ApiError(404, 'not_found', ''); });
    for (let i = 0; i < 10; ++i) await settled();
    assert.equal(timers.waiting.size, 0);
    assert.deepEqual(told, []);
});

test('a watch that was stopped opens nothing more', async () => {
    let opened = 0;
    const { watch, timers } = follow(async () => { ++opened; throw new ApiError(0, 'unreachable', ''); });
    for (let i = 0; i < 10; ++i) await settled();
    assert.equal(timers.waiting.size, 1);
    watch.stop();
    await timers.fire();
    assert.equal(opened, 1);
});

test('what a stream still says after its watch was stopped is neither told nor looked for', async () => {
    const stream = fakeStream();
    const { watch, timers, told } = follow(async () => stream.response);
    await settled();
    stream.say({ type: 'incomplete', directories: 1 });
    watch.stop();
    for (let i = 0; i < 10; ++i) await settled();
    assert.equal(timers.waiting.size, 0);
    assert.deepEqual(told, []);
});
