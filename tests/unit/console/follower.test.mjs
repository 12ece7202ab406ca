import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Follower, MAX_DELAY_MS, MIN_DELAY_MS, SILENCE_MS, delayOf } from '../../../http/console/follower.mjs';

class World {
    constructor() {
        this.now = 0;
        this.timers = new Map();
        this.next = 1;
        this.connections = [];
        this.events = [];
        this.states = [];
        this.resets = 0;
        this.follower = new Follower({
            open: (after, on) => {
                const connection = { after, on, closed: false };
                this.connections.push(connection);
                return () => (connection.closed = true);
            },
            timers: {
                set: (act, ms) => {
                    this.timers.set(this.next, { act, at: this.now + ms });
                    return this.next++;
                },
                clear: (handle) => this.timers.delete(handle),
            },
            random: () => 0.5,
            on: {
                event: (event) => this.events.push(event.seq),
                state: (state) => this.states.push(state.name),
                reset: () => ++this.resets,
            },
        });
        this.follower.start();
    }
    get last() {
        return this.connections.at(-1);
    }
    send(...seqs) {
        for (const seq of seqs) this.last.on.onEvent({ seq });
    }
    pass(ms) {
        const until = this.now + ms;
        for (;;) {
            const due = [...this.timers].filter(([, timer]) => timer.at <= until).sort((a, b) => a[1].at - b[1].at)[0];
            if (due === undefined) break;
            this.timers.delete(due[0]);
            this.now = due[1].at;
            due[1].act();
        }
        this.now = until;
    }
}

test('the delay grows from half a second to ten, with jitter', () => {
    for (let failures = 0; failures < 100; ++failures)
        for (const random of [0, 0.5, 0.999]) {
            const delay = delayOf(failures, random);
            assert.ok(delay >= MIN_DELAY_MS && delay <= MAX_DELAY_MS);
        }
    assert.equal(delayOf(0, 0), 500);
    assert.ok(delayOf(3, 0) < delayOf(3, 0.9));
    assert.ok(delayOf(10, 0.999) > 9900);
});

test('a connection that was cut goes on after the last event', () => {
    const world = new World();
    world.last.on.onOpen();
    world.send(1, 2, 3);
    world.last.on.onEnd({});
    assert.equal(world.states.at(-1), 'waiting');
    world.pass(MAX_DELAY_MS);
    assert.equal(world.connections.length, 2);
    assert.equal(world.last.after, '3');
    world.last.on.onOpen();
    world.send(3, 4);
    assert.deepEqual(world.events, [1, 2, 3, 4]);
    assert.equal(world.states.at(-1), 'live');
});

test('what came already, and what is no event, is ignored', () => {
    const world = new World();
    world.send(1, 1, 2, 1, 2, undefined, 'x', 3);
    assert.deepEqual(world.events, [1, 2, 3]);
});

test('a connection that was given up says nothing more', () => {
    const world = new World();
    const first = world.last;
    first.on.onEnd({});
    assert.equal(first.closed, true);
    world.pass(MAX_DELAY_MS);
    first.on.onEvent({ seq: 9 });
    first.on.onEnd({});
    assert.deepEqual(world.events, []);
    assert.equal(world.connections.length, 2);
});

test('failures make the pause longer, an event makes it short again', () => {
    const world = new World();
    const pauses = [];
    for (let i = 0; i < 6; ++i) {
        const began = world.now;
        const count = world.connections.length;
        world.last.on.onEnd({});
        while (world.connections.length === count) world.pass(50);
        pauses.push(world.now - began);
    }
    assert.ok(pauses.every((pause, i) => i === 0 || pause >= pauses[i - 1]), pauses.join());
    assert.ok(pauses.at(-1) > 5000);
    world.send(1);
    world.last.on.onEnd({});
    const count = world.connections.length;
    world.pass(600);
    assert.equal(world.connections.length, count + 1);
});

test('silence ends a connection that has heartbeats, and no other', () => {
    const world = new World();
    world.last.on.onOpen({ heartbeats: true });
    world.pass(SILENCE_MS - 1);
    world.last.on.onActivity();
    world.pass(SILENCE_MS - 1);
    assert.equal(world.connections.length, 1);
    world.pass(MAX_DELAY_MS);
    assert.equal(world.connections.length, 2);
    world.last.on.onOpen({ heartbeats: false });
    world.pass(10 * SILENCE_MS);
    assert.equal(world.connections.length, 2);
});

test('a log that was cut is read from its beginning', () => {
    const world = new World();
    world.send(1, 2);
    world.last.on.onEnd({ code: 'seq_expired' });
    world.pass(MAX_DELAY_MS);
    assert.equal(world.resets, 1);
    assert.equal(world.last.after, '0');
    world.send(1, 7);
    assert.deepEqual(world.events, [1, 2, 1, 7]);
});

test('a log that was replaced is read from its beginning, and each connection says which log it goes on with', () => {
    const world = new World();
    world.last.on.onEvent({ seq: 1, type: 'session_start', data: { logEpoch: 'old' } });
    world.send(2, 3);
    world.last.on.onEnd({ code: '' });
    world.pass(MAX_DELAY_MS);
    assert.equal(world.last.after, '3-old');
    world.last.on.onEnd({ code: 'log_replaced', logEpoch: 'new' });
    world.pass(MAX_DELAY_MS);
    assert.equal(world.resets, 1);
    assert.equal(world.last.after, '0');
    // Without its session_start, as of a log that was cut.
    world.send(2);
    world.last.on.onEnd({ code: '' });
    world.pass(MAX_DELAY_MS);
    assert.equal(world.last.after, '2-new');
    assert.deepEqual(world.events, [1, 2, 3, 2]);
});

test('what cannot get better ends it', () => {
    for (const code of ['not_found', 'conversation_ended', 'unauthorized', 'invalid_key']) {
        const world = new World();
        world.last.on.onEnd({ code });
        world.pass(10 * MAX_DELAY_MS);
        assert.equal(world.states.at(-1), 'stopped');
        assert.equal(world.connections.length, 1);
    }
});

test('when the network is back it does not wait on', () => {
    const world = new World();
    world.last.on.onEnd({});
    world.follower.hurry();
    assert.equal(world.connections.length, 2);
    world.follower.hurry();
    world.pass(MAX_DELAY_MS);
    assert.equal(world.connections.length, 2);
});

test('after stop nothing happens', () => {
    const world = new World();
    world.follower.stop();
    world.send(1);
    world.last.on.onEnd({});
    world.follower.hurry();
    world.pass(100_000);
    assert.equal(world.last.closed, true);
    assert.deepEqual(world.events, []);
    assert.equal(world.connections.length, 1);
});

test('a token that expired is renewed at once, and with a pause if that brings no event', () => {
    const world = new World();
    world.last.on.onOpen();
    world.send(1);
    world.last.on.onEnd({ code: 'token_expired' });
    assert.equal(world.connections.length, 2);
    assert.equal(world.last.after, '1');
    assert.deepEqual(world.states.slice(-2), ['live', 'connecting']);
    world.last.on.onOpen();
    world.last.on.onEnd({ code: 'token_expired' });
    assert.equal(world.connections.length, 2);
    assert.equal(world.states.at(-1), 'waiting');
    world.pass(MAX_DELAY_MS);
    assert.equal(world.connections.length, 3);
    world.send(2);
    world.last.on.onEnd({ code: 'token_expired' });
    assert.equal(world.connections.length, 4);
});
