import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError } from '../../../http/console/api.mjs';
import { ProcessStream } from '../../../http/console/process_stream.mjs';
import { Processes } from '../../../http/console/processes.mjs';

const settled = () => new Promise((done) => setImmediate(done));
const frame = (type, text) => Uint8Array.from([type, ...Buffer.from(text)]).buffer;

class Socket {
    readyState = 0;
    sent = [];
    send(data) {
        assert.equal(this.readyState, 1);
        this.sent.push(typeof data === 'string' ? JSON.parse(data) : `${data[0]}:${Buffer.from(data.subarray(1))}`);
    }
    open() {
        this.readyState = 1;
        this.onopen();
    }
    close() {
        this.readyState = 3;
    }
    drop(reason = '') {
        this.readyState = 3;
        this.onclose({ code: 1006, reason });
    }
}

function attach({ connect, holdShown = false } = {}) {
    const sockets = [];
    const afters = [];
    const seen = { output: '', states: [], exits: [], dropped: 0, held: [] };
    let timer = null;
    const stream = new ProcessStream({
        connect: async (after) => {
            afters.push(after);
            connect?.();
            sockets.push(new Socket());
            return sockets.at(-1);
        },
        timers: { set: (act) => (timer = act), clear: () => (timer = null) },
        on: {
            output: (bytes, shown) => {
                seen.output += Buffer.from(bytes);
                if (holdShown) seen.held.push(shown);
                else shown();
            },
            dropped: (count) => (seen.dropped += count),
            exit: (how) => seen.exits.push(how),
            state: ({ name }) => seen.states.push(name),
        },
    });
    stream.start();
    const retry = async () => {
        const act = timer;
        timer = null;
        act();
        await settled();
    };
    return { stream, sockets, afters, seen, retry, isWaiting: () => timer !== null };
}

test('output of both streams comes in order, and a cut connection goes on where it was', async () => {
    const { sockets, afters, seen, retry } = attach();
    await settled();
    sockets[0].open();
    sockets[0].onmessage({ data: frame(1, 'one ') });
    sockets[0].onmessage({ data: frame(2, 'two ') });
    sockets[0].drop();
    await retry();
    sockets[1].open();
    sockets[1].onmessage({ data: frame(1, 'three') });
    // A message that still comes on an old connection is ignored.
    sockets[0].onmessage({ data: frame(1, 'old') });
    assert.equal(seen.output, 'one two three');
    assert.deepEqual(afters, [0, 8]);
    assert.deepEqual(seen.states, ['connecting', 'live', 'waiting', 'connecting', 'live']);
});

test('what the server did not keep counts as received', async () => {
    const { sockets, afters, seen, retry } = attach();
    await settled();
    sockets[0].open();
    sockets[0].onmessage({ data: '{"type":"dropped","bytes":100}' });
    sockets[0].onmessage({ data: frame(1, 'x') });
    sockets[0].drop();
    await retry();
    assert.equal(afters[1], 101);
    assert.equal(seen.dropped, 100);
});

test('input and the size wait for the connection, in order and bounded', async () => {
    const { stream, sockets } = attach();
    stream.resize(80, 24);
    stream.send(Buffer.from('ls'));
    stream.send(Buffer.alloc(65 * 1024));
    stream.send(Buffer.from('\r'));
    await settled();
    sockets[0].open();
    assert.deepEqual(sockets[0].sent, [{ type: 'resize', cols: 80, rows: 24 }, '0:ls', '0:\r']);
    stream.resize(80, 24);
    stream.resize(100, 30);
    stream.send(Buffer.from('ä'));
    assert.deepEqual(sockets[0].sent.slice(3), [{ type: 'resize', cols: 100, rows: 30 }, '0:ä']);
});

test('the end of the process is told, and nothing is tried after it', async () => {
    const { stream, sockets, seen, isWaiting } = attach();
    await settled();
    sockets[0].open();
    sockets[0].onmessage({ data: '{"type":"exit","exitCode":3,"signal":null}' });
    sockets[0].drop();
    assert.deepEqual(seen.exits, [{ exitCode: 3, signal: null }]);
    assert.equal(seen.states.at(-1), 'exited');
    assert.equal(isWaiting(), false);
    stream.send(Buffer.from('x'));
    stream.hurry();
    await settled();
    assert.equal(sockets.length, 1);
});

test('a process that is gone is told as such', async () => {
    const error = Object.assign(new ApiError(404, 'not_found', 'no such process'), { isFinal: true });
    const { seen, isWaiting } = attach({ connect: () => { throw error; } });
    await settled();
    assert.deepEqual(seen.states, ['connecting', 'gone']);
    assert.equal(isWaiting(), false);
});

test('frames that are none change nothing', async () => {
    const { sockets, seen } = attach();
    await settled();
    sockets[0].open();
    for (const data of [new ArrayBuffer(0), frame(0, 'input'), frame(9, 'x'), 'no json', '7', 'null', '{"type":"other"}', '{"type":"dropped","bytes":-1}'])
        sockets[0].onmessage({ data });
    assert.equal(seen.output, '');
    assert.deepEqual(seen.exits, []);
});

test('output that the screen does not take closes the connection until it has', async () => {
    const { sockets, seen, afters } = attach({ holdShown: true });
    await settled();
    sockets[0].open();
    const size = 3 * 1024 * 1024;
    for (let i = 0; i < 4; ++i) sockets[0].onmessage({ data: frame(1, 'x'.repeat(size)) });
    // The bound is passed with the third; the fourth is asked for again.
    assert.equal(seen.held.length, 3);
    assert.equal(sockets[0].readyState, 3);
    for (const shown of seen.held.splice(0)) shown();
    await settled();
    assert.deepEqual(afters, [0, 3 * size]);
});

test('a shell is found by the tag of the console, else started on a terminal', async () => {
    const asked = [];
    const api = {
        async json(method, path, options) {
            asked.push([method, path, options?.body]);
            if (path.endsWith('/tokens')) return { token: 'a+b' };
            if (method === 'POST') return { processId: 'new' };
            if (path.endsWith('/p%2F1')) return {};
            if (path.endsWith('/gone')) throw Object.assign(new Error('no such process'), { status: 404 });
            assert.match(path, /\/processes\?tag=console$/);
            return { processes: [{ processId: '1', status: 'running' }, { processId: '2', status: 'running' }, { processId: '3', status: 'ended' }] };
        },
    };
    class Made {
        constructor(url) {
            this.url = url;
        }
    }
    const processes = new Processes(api, 's', { location: { protocol: 'https:', host: 'h' }, WebSocket: Made });
    assert.equal(await processes.findShell(), '2');
    assert.equal(await processes.startShell({ cols: 80, rows: 24 }), 'new');
    assert.deepEqual(asked.at(-1)[2].pty, { cols: 80, rows: 24 });
    assert.equal((await processes.connect('p/1', 7)).url, 'wss://h/v1/sandboxes/s/processes/p%2F1/ws?after=7&token=a%2Bb');
    assert.equal(asked.at(-1)[2].scope, 'terminal');
    await assert.rejects(processes.connect('gone', 0), { isFinal: true, message: /^The shell ended with its sandbox or with the server\..*New shell/ });
});
