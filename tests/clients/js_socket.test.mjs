// clients/js: when it takes the WebSocket of a process for dead. fakeSockets() stands in for the network, so that only its own timers count.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fakeSockets, keyed, until } from './js_lab.mjs';

const STARTED = { type: 'started', pid: 7, after: 0, pty: false };
const EXIT = { type: 'exit', exitCode: 0, signal: null };
const REFUSED = { type: 'rejected', code: 'invalid_json', detail: 'd' };

const all = (iteration) => until(iteration, () => false);
const attach = (WebSocket) => keyed({ address: '127.0.0.1:9', key: 'k' }, { silenceMs: 20, WebSocket }).sandbox('s1').processes.attach('p1');

/** All frames of an attachment that is given input once it has started. */
function feed(attached, input) {
    return until(attached, ({ type }) => type === 'exit', (_, frames) => frames.length === 1 && attached.write(input));
}

test('a process that does not read its input holds up probes, and keeps its connection', async () => {
    let opened = 0;
    const WebSocket = fakeSockets((socket, _, number) => {
        opened = number;
        let probes = 0;
        socket.onsent = (data) => {
            // The first is behind the input, the second of the silence.
            if (data !== 'ping' || ++probes !== 2) return;
            // Five silences later the process has read it.
            setTimeout(() => {
                for (let i = 0; i < 2; ++i) socket.tell(REFUSED);
                socket.tell(EXIT);
            }, 100);
        };
        socket.open();
        socket.tell(STARTED);
    });
    const frames = await feed(attach(WebSocket), new Uint8Array(100_000));
    assert.deepEqual([frames.map(({ type }) => type), opened], [['started', 'exit'], 1]);
});

test('a late answer to a probe before the input says nothing of the input', async () => {
    let opened = 0;
    let attached;
    const WebSocket = fakeSockets((socket, _, number) => {
        opened = number;
        let probes = 0;
        socket.onsent = (data) => {
            if (data !== 'ping') return;
            ++probes;
            // The first is of a silence: it is answered when there is input behind it, with a probe of its own.
            if (probes === 1) attached.write(new Uint8Array(100_000));
            if (probes === 2) socket.tell(REFUSED);
            if (probes === 3) setTimeout(() => socket.tell(EXIT), 100);
        };
        socket.open();
        socket.tell(STARTED);
    });
    attached = attach(WebSocket);
    assert.deepEqual([(await all(attached)).map(({ type }) => type), opened], [['started', 'exit'], 1]);
});

test('a connection that dies behind input which has passed is given up, whatever the length', async () => {
    for (const input of [100_000, 10]) {
        let opened = 0;
        const WebSocket = fakeSockets((socket, _, number) => {
            opened = number;
            // The server takes the input and what comes with it, and nothing after that.
            let isDead = number > 1;
            socket.onsent = (data) => {
                if (data === 'ping' && !isDead) socket.tell(REFUSED);
                setImmediate(() => (isDead = true));
            };
            socket.open();
            socket.tell(STARTED);
            if (number > 1) socket.tell(EXIT);
        });
        const frames = await feed(attach(WebSocket), new Uint8Array(input));
        assert.deepEqual([frames.map(({ type }) => type), opened], [['started', 'started', 'exit'], 2], `${input}`);
    }
});
