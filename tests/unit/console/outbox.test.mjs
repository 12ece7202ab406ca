import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError } from '../../../http/console/api.mjs';
import { Outbox } from '../../../http/console/outbox.mjs';

const away = new ApiError(0, 'unreachable', 'The server cannot be reached.');
const busy = new ApiError(409, 'turn_in_progress', 'A turn is open.');
const settled = () => new Promise((done) => setImmediate(done));

/// `answers`: of the requests, one after the other: an error, or the name of a turn.
function world(...answers) {
    const made = { sent: [], states: [], refused: [], timers: [] };
    const timers = {
        set: (act, ms) => made.timers.push({ act, ms }),
        clear: (handle) => {
            if (handle !== null) made.timers.splice(handle - 1, 1, null);
        },
    };
    const send = async (text, key) => {
        made.sent.push({ text, key });
        const answer = answers.shift();
        if (answer instanceof Error) throw answer;
        return { turn: answer };
    };
    made.outbox = new Outbox({ send, refused: (text, error) => made.refused.push([text, error.code]), timers });
    made.outbox.on = ({ text, state, turn }) => made.states.push(turn === undefined ? `${text} ${state}` : `${text} ${state} ${turn}`);
    made.tick = async () => {
        const next = made.timers.findIndex((timer) => timer !== null);
        const { act, ms } = made.timers[next];
        made.timers[next] = null;
        act();
        await settled();
        return ms;
    };
    return made;
}

test('a message that gets no answer is sent again with its key, and those after it wait in order', async () => {
    const { outbox, sent, states, tick } = world(away, away, 't1', 't2');
    outbox.add('a');
    outbox.add('b');
    await settled();
    assert.deepEqual(states, ['a sending', 'b turn', 'a server']);
    assert.equal(await tick(), 500);
    assert.equal(await tick(), 1000);
    await settled();
    assert.deepEqual(sent.map(({ text }) => text), ['a', 'a', 'a', 'b']);
    assert.equal(new Set(sent.slice(0, 3).map(({ key }) => key)).size, 1);
    assert.notEqual(sent[3].key, sent[0].key);
    assert.deepEqual(states.slice(3), ['a accepted t1', 'b sending', 'b accepted t2']);
    assert.equal(outbox.items.length, 0);
});

test('a connection that is back sends at once, and a proxy that answers for the server is no refusal', async () => {
    const { outbox, sent, refused } = world(new ApiError(502, 'http_502', ''), new ApiError(503, 'shutting_down', ''), 't1');
    outbox.add('a');
    await settled();
    outbox.hurry();
    await settled();
    outbox.hurry();
    await settled();
    assert.equal(sent.length, 3);
    assert.deepEqual(refused, []);
});

test('a message waits for the end of the open turn', async () => {
    const { outbox, sent, states } = world('t2');
    let isOpen = true;
    outbox.isOpen = () => isOpen;
    outbox.add('a');
    await settled();
    assert.deepEqual([sent.length, states], [0, ['a turn']]);
    isOpen = false;
    outbox.hurry();
    await settled();
    assert.deepEqual(states, ['a turn', 'a sending', 'a accepted t2']);
});

test('an open turn that only the server knew of is no refusal', async () => {
    const { outbox, states, tick } = world(busy, 't2');
    outbox.add('a');
    await settled();
    await tick();
    assert.deepEqual(states, ['a sending', 'a turn', 'a sending', 'a accepted t2']);
});

test('a refusal is told, and does not stop the messages behind', async () => {
    const { outbox, refused, states } = world(new ApiError(413, 'body_too_large', ''), 't1');
    outbox.add('a');
    outbox.add('b');
    await settled();
    assert.deepEqual(refused, [['a', 'body_too_large']]);
    assert.equal(states.at(-1), 'b accepted t1');
});

test('a message that waits is taken back; one that is being sent is not', async () => {
    const { outbox, sent } = world(away, 't1');
    outbox.add('a');
    const [item] = outbox.items;
    assert.equal(outbox.take(item), null);
    await settled();
    assert.equal(outbox.take(item), 'a');
    assert.equal(outbox.take(item), null);
    outbox.hurry();
    await settled();
    assert.equal(sent.length, 1);
});

test('a stopped outbox sends nothing more', async () => {
    const { outbox, sent } = world(away);
    outbox.add('a');
    await settled();
    outbox.stop();
    outbox.hurry();
    await settled();
    assert.equal(sent.length, 1);
});
