import assert from 'node:assert/strict';
import { webcrypto } from 'node:crypto';
import { test } from 'node:test';

import { Api, ApiError } from '../../../http/console/api.mjs';
import { chooseTransport } from '../../../http/console/transport.mjs';

// Node 18 has it, but not as a global.
globalThis.crypto ??= webcrypto;

const location = { protocol: 'http:', host: 'localhost:4100' };
const settled = () => new Promise((done) => setImmediate(done));

class Socket {
    static made = [];
    constructor(url) {
        this.url = url;
        this.closed = false;
        Socket.made.push(this);
    }
    close() {
        this.closed = true;
    }
}

// An Api whose token route answers `token`, or throws it, and whose event stream is `stream`.
function fakeApi(token, stream = '') {
    const calls = [];
    return {
        calls,
        async json(method, path, options) {
            calls.push([method, path, options?.body]);
            if (token instanceof Error) throw token;
            return token;
        },
        async fetch(method, path) {
            calls.push([method, path]);
            return new Response(stream, { headers: { 'Content-Type': 'text/event-stream' } });
        },
    };
}

function follow(api, after = 0) {
    Socket.made = [];
    const seen = { opens: [], events: [], ends: [], choices: [] };
    const on = {
        onOpen: (how) => seen.opens.push(how),
        onActivity: () => {},
        onEvent: (event) => seen.events.push(event.seq),
        onEnd: (end) => seen.ends.push(end),
    };
    const context = { api, id: 'abc', drained: async () => {}, location, WebSocket: Socket };
    const open = chooseTransport(context, (choice) => seen.choices.push(choice));
    return { seen, open: (from = after) => open(from, on) };
}

async function until(condition) {
    for (let i = 0; i < 1000 && !condition(); ++i) await settled();
    assert.ok(condition());
}

test('a server with tokens is followed by WebSocket, with a token that can only read', async () => {
    const api = fakeApi({ token: 'a+b' });
    const { seen, open } = follow(api);
    open(7);
    await until(() => Socket.made.length === 1);
    const [socket] = Socket.made;
    assert.equal(socket.url, 'ws://localhost:4100/v1/conversations/abc/ws?after=7&token=a%2Bb');
    assert.equal(api.calls[0][2].scope, 'read');
    socket.onopen();
    assert.deepEqual(seen.opens, [{ heartbeats: false }]);
    socket.onmessage({ data: '{"seq":8,"type":"done","data":{}}' });
    assert.deepEqual(seen.events, [8]);
    socket.onclose({ code: 1006, reason: '' });
    assert.equal(seen.ends.length, 1);
    // Every connection has a token of its own.
    open(8);
    await until(() => Socket.made.length === 2);
    assert.deepEqual(seen.choices, ['websocket', 'websocket']);
});

test('the reason of a close is handed on', async () => {
    const { seen, open } = follow(fakeApi({ token: 't' }));
    open();
    await until(() => Socket.made.length === 1);
    Socket.made[0].onopen();
    Socket.made[0].onclose({ code: 4410, reason: '{"logEpoch":"e2","code":"log_replaced","after":0,"detail":"of another log"}' });
    assert.equal(seen.ends[0].code, 'log_replaced');
    assert.equal(seen.ends[0].logEpoch, 'e2');
});

test('what is no event ends the connection', async () => {
    const { seen, open } = follow(fakeApi({ token: 't' }));
    open();
    await until(() => Socket.made.length === 1);
    Socket.made[0].onopen();
    Socket.made[0].onmessage({ data: 'not json' });
    assert.equal(seen.ends.length, 1);
});

test('a server without tokens is followed by Server-Sent Events', async () => {
    const stream = 'id: 1\ndata: {"seq":1,"type":"error"}\n\ndata: {"type":"stream_closed","code":"shutting_down","detail":"d","after":1}\n\n';
    for (const status of [404, 405]) {
        const api = fakeApi(new ApiError(status, 'not_found', ''), stream);
        const { seen, open } = follow(api, 3);
        open();
        await until(() => seen.ends.length === 1);
        assert.deepEqual(seen.choices, ['websocket', 'sse']);
        assert.deepEqual(seen.events, [1]);
        assert.equal(seen.ends[0].code, 'shutting_down');
        assert.equal(api.calls[1][1], '/v1/conversations/abc/events?after=3');
        open();
        await until(() => seen.ends.length === 2);
        assert.equal(seen.choices.at(-1), 'sse');
        assert.equal(Socket.made.length, 0);
    }
});

test('a WebSocket that never gets through is given up for Server-Sent Events', async () => {
    const { seen, open } = follow(fakeApi({ token: 't' }));
    for (let i = 0; i < 2; ++i) {
        open();
        await until(() => Socket.made.length === i + 1);
        Socket.made[i].onclose({ code: 1006, reason: '' });
    }
    await until(() => seen.opens.length === 1);
    assert.deepEqual(seen.choices, ['websocket', 'websocket', 'sse']);
});

test('a new token that the WebSocket refuses is given up for Server-Sent Events, an expired one is not', async () => {
    for (const code of [4401, 4403]) {
        const { seen, open } = follow(fakeApi({ token: 't' }));
        open();
        await until(() => Socket.made.length === 1);
        Socket.made[0].onopen();
        Socket.made[0].onclose({ code: 4401, reason: '{"code":"token_expired","after":0}' });
        assert.equal(seen.ends[0].code, 'token_expired');
        open();
        await until(() => Socket.made.length === 2);
        Socket.made[1].onopen();
        Socket.made[1].onclose({ code, reason: '{"code":"unauthorized","after":0}' });
        await until(() => seen.choices.length === 3);
        assert.deepEqual(seen.choices, ['websocket', 'websocket', 'sse']);
    }
});

test('a refused token says why', async () => {
    const { seen, open } = follow(fakeApi(new ApiError(401, 'unauthorized', 'no')));
    open();
    await until(() => seen.ends.length === 1);
    assert.equal(seen.ends[0].code, 'unauthorized');
});

test('a connection that was ended calls nothing more', async () => {
    const { seen, open } = follow(fakeApi({ token: 't' }));
    const close = open();
    await until(() => Socket.made.length === 1);
    close();
    Socket.made[0].onmessage({ data: '{"seq":1}' });
    Socket.made[0].onclose({ code: 1000, reason: '' });
    await settled();
    assert.deepEqual(seen, { opens: [], events: [], ends: [], choices: ['websocket'] });
});

test('a message carries its key, and no answer is an error of its own', async (context) => {
    const answers = [new TypeError('network'), new Response('{"turn":"t1","after":1}', { status: 202 })];
    const keys = [];
    context.mock.method(globalThis, 'fetch', async (path, { headers }) => {
        keys.push(headers['Idempotency-Key']);
        const answer = answers.shift();
        if (answer instanceof Error) throw answer;
        return answer;
    });
    const api = new Api('key');
    await assert.rejects(api.send('abc', 'hi', 'k1'), { status: 0, code: 'unreachable' });
    assert.equal((await api.send('abc', 'hi', 'k1')).turn, 't1');
    assert.deepEqual(keys, ['k1', 'k1']);
});
