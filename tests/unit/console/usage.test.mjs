import assert from 'node:assert/strict';
import { test } from 'node:test';

import { areaOf, bytesText, HISTORY, Notice, PERIOD_MS, Poller, Usage } from '../../../http/console/usage.mjs';

const MB = 1024 * 1024;

function sample(changes = {}) {
    return {
        at: '2026-01-31T09:05:00.000Z',
        generation: 1,
        memory: { usedBytes: 64 * MB, limitBytes: 256 * MB, peakBytes: 70 * MB },
        cpu: { usageUs: 1_000_000, limitPercent: 200 },
        processes: 3,
        maxProcesses: 64,
        disk: { usedBytes: 0, inodes: 1, limitBytes: 1024 * MB },
        ...changes,
    };
}

test('bytes are told in the units that limits are given in', () => {
    assert.equal(bytesText(0), '0 B');
    assert.equal(bytesText(1023), '1023 B');
    assert.equal(bytesText(4.25 * MB), '4.3 MB');
    assert.equal(bytesText(300 * MB), '300 MB');
    assert.equal(bytesText(2048 * MB), '2 GB');
});

test('a sample is told in words and as shares of its limits', () => {
    const now = new Usage().add(sample());
    assert.deepEqual(now.memory, { text: '64 MB of 256 MB', share: 0.25, tone: '' });
    assert.deepEqual(now.processes, { text: '3 of 64', share: 3 / 64, tone: '' });
    assert.deepEqual(now.disk, { text: '0 B of 1 GB', share: 0, tone: '' });
    assert.equal(now.cpu.share, null);
});

test('processor time is told from two samples of one generation', () => {
    const usage = new Usage();
    usage.add(sample());
    const later = { at: '2026-01-31T09:05:02.000Z', cpu: { usageUs: 3_000_000, limitPercent: 200 } };
    assert.deepEqual(usage.add(sample(later)).cpu, { text: '100 % of 200 %', share: 0.5, tone: '' });
    const anew = { at: '2026-01-31T09:05:04.000Z', generation: 2, cpu: { usageUs: 4_000_000, limitPercent: 200 } };
    assert.equal(usage.add(sample(anew)).cpu.share, null);
    assert.equal(usage.add(sample(anew)).cpu.share, null, 'no time has passed');
});

test('what comes near its limit has a tone, and what is not known is said so', () => {
    const usage = new Usage();
    assert.equal(usage.add(sample({ memory: { usedBytes: 210 * MB, limitBytes: 256 * MB } })).memory.tone, 'warn');
    const full = usage.add(sample({ memory: { usedBytes: 300 * MB, limitBytes: 256 * MB } })).memory;
    assert.deepEqual([full.tone, full.share], ['bad', 1]);
    const unknown = usage.add(sample({ processes: null, memory: { usedBytes: null, limitBytes: 1 } }));
    assert.deepEqual(unknown.memory, { text: 'not known', share: null, tone: '' });
    assert.equal(unknown.processes.text, 'not known');
});

test('the history is bounded', () => {
    const usage = new Usage();
    for (let i = 0; i < 3 * HISTORY; ++i) usage.add(sample({ processes: i % 64 }));
    assert.equal(usage.shares('processes').length, HISTORY);
    assert.equal(usage.shares('processes').at(-1), ((3 * HISTORY - 1) % 64) / 64);
});

test('a graph grows from the right, and what is not known is on its ground', () => {
    assert.equal(areaOf([], 118, 20), '');
    assert.equal(areaOf([0.5, null, 1], 118, 20), '114,20 114,10 116,20 118,0 118,20');
});

function bench() {
    const due = [];
    const state = { seen: true, asked: 0, told: [], answers: [] };
    const poller = new Poller({
        ask: () => {
            ++state.asked;
            return new Promise((resolve, reject) => state.answers.push({ resolve, reject }));
        },
        tell: (got) => state.told.push(got),
        isSeen: () => state.seen,
        timers: { set: (act, ms) => due.push({ act, ms }), clear: () => due.pop() },
    });
    const settle = () => new Promise((done) => setImmediate(done));
    return { poller, state, due, fire: () => due.shift().act(), settle };
}

test('it asks at once, then after each answer and a pause, one request at a time', async () => {
    const { poller, state, due, fire, settle } = bench();
    poller.start();
    poller.start();
    assert.deepEqual(due.map(({ ms }) => ms), [0]);
    fire();
    assert.equal(due.length, 0);
    state.answers.shift().resolve('one');
    await settle();
    assert.deepEqual(state.told, ['one']);
    assert.deepEqual(due.map(({ ms }) => ms), [PERIOD_MS]);
    fire();
    state.answers.shift().reject(new Error('gone'));
    await settle();
    assert.ok(due[0].ms > PERIOD_MS, 'a failure makes it slower');
    poller.stop();
    assert.equal(due.length, 0);
});

test('a page that nobody sees asks for nothing, and at once when it is seen again', async () => {
    const { poller, state, due, fire, settle } = bench();
    poller.start();
    fire();
    state.seen = false;
    poller.look();
    state.answers.shift().resolve('late');
    await settle();
    assert.equal(due.length, 0);
    state.seen = true;
    poller.look();
    assert.deepEqual(due.map(({ ms }) => ms), [0]);
    poller.stop();
});

test('an answer that comes after the end is not told', async () => {
    const { poller, state, due, fire, settle } = bench();
    poller.start();
    fire();
    poller.stop();
    state.answers.shift().resolve('late');
    await settle();
    assert.deepEqual(state.told, []);
    assert.equal(due.length, 0);
});

test('graphs are shown from half of a limit on, and until all have been calm for a while', () => {
    const at = (share) => ({ memory: { share: null }, disk: { share } });
    const notice = new Notice();
    assert.equal(notice.add(at(0.49)), false);
    assert.equal(notice.add(at(0.5)), true);
    for (let i = 1; i < 15; ++i) assert.equal(notice.add(at(0.1)), true);
    assert.equal(notice.add(at(0.1)), false);
});
