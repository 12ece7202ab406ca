// clients/js: following a conversation through answers that a real server gives rarely. sandbox_stub.mjs stands in for it.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Atoll, AtollError } from '../../clients/js/src/index.js';
import { asBrowser, assertOnce, errorOf, fakeSockets, keyed, SOCKETS, until } from './js_lab.mjs';
import { refuse, sendFrames, startStub } from './sandbox_stub.mjs';

const ROOT = '/v1/conversations/c1';
const event = (seq, type = 'text_delta') => ({ seq, type, at: '2026-01-01T00:00:00.000Z', turn: 't1', data: {} });

async function withStub(options, run) {
    const stub = await startStub(options);
    try {
        await run(keyed(stub).conversation('c1'), stub);
    } finally {
        await stub.stop();
    }
}

const isDone = ({ type }) => type === 'done';
const closed = (code) => ({ logEpoch: 'e1', type: 'stream_closed', code, detail: 'd', after: 0 });
const REFUSED = JSON.stringify({ type: 'rejected', code: 'invalid_json', detail: 'd' });

/** A client with tokens; `getToken` as the client wants it. */
const paged = (stub, options) => new Atoll({ baseUrl: `http://${stub.address}`, WebSocket: SOCKETS.ws, getToken: () => 't', ...options });

test('a log that begins later is followed from its beginning, and the gap is told; without a listener it is an error', async () => {
    const answers = {
        [`GET ${ROOT}/events`]: ({ query, response }) =>
            query.get('after') === '5' ? refuse(response, 410, 'seq_expired') : sendFrames(response, [event(8), event(9, 'done')]),
    };
    await withStub({ answers }, async (conversation) => {
        const gaps = [];
        const events = await until(conversation.follow({ after: 5, onGap: (gap) => gaps.push(gap) }), ({ type }) => type === 'done');
        assert.deepEqual(events.map(({ seq }) => seq), [8, 9]);
        assert.deepEqual(gaps, [{ after: 5, next: 8 }]);
        assert.equal((await errorOf(conversation.follow({ after: 5 }).next())).code, 'seq_expired');
    });
});

test('each connection says which log it goes on with, and a log that was replaced is followed from its beginning', async () => {
    const replaced = { logEpoch: 'e2', type: 'stream_closed', code: 'log_replaced', detail: 'd', after: 0 };
    for (const transport of ['sse', 'websocket']) {
        const afters = [];
        const begin = (epoch) => ({ ...event(1, 'session_start'), data: { logEpoch: epoch } });
        // The first log, a break, its replacement, the second log, a break, the rest.
        const rounds = [[begin('e1'), event(2)], [replaced], [begin('e2')], [event(2, 'done')]];
        const onEvents = ({ query, response }) => {
            afters.push(query.get('after'));
            sendFrames(response, rounds[afters.length - 1]);
        };
        const onSocket = (socket, { query }) => {
            afters.push(query.get('after'));
            const round = rounds[afters.length - 1];
            for (const frame of round) if (frame !== replaced) socket.send(JSON.stringify(frame));
            const { type, ...reason } = replaced;
            socket.close(round[0] === replaced ? 4410 : 1001, round[0] === replaced ? JSON.stringify(reason) : '');
        };
        const answers = { [`GET ${ROOT}/events`]: onEvents, [`POST ${ROOT}/tokens`]: () => ({ token: 't' }) };
        await withStub({ answers, onSocket }, async (conversation) => {
            let resets = 0;
            const followed = conversation.follow({ transport, onReset: () => ++resets });
            const events = await until(followed, ({ type }) => type === 'done');
            assert.deepEqual(events.map(({ seq }) => seq), [1, 2, 1, 2]);
            assert.deepEqual(afters, ['0', '2-e1', '0', '1-e2']);
            assert.equal(resets, 1);
            assert.equal(followed.after, '2-e2');
            rounds.unshift([replaced]);
            afters.length = 0;
            assert.equal((await errorOf(conversation.follow({ transport, after: '2-e1' }).next())).code, 'log_replaced');
            assert.deepEqual(afters, ['2-e1']);
        });
    }
});

test('a page whose origin is not allowed stops at once, and hears of the flag', async () => {
    const FLAG = 'the server needs --allowed-origin with this origin';
    let tries = 0;
    const answers = {
        [`GET ${ROOT}/events`]: ({ response }) => {
            ++tries;
            response.writeHead(403, { 'Content-Type': 'application/problem+json' }).end(JSON.stringify({ status: 403, code: 'origin_not_allowed', detail: FLAG }));
        },
    };
    const onSocket = (socket) => {
        ++tries;
        socket.close(4403, JSON.stringify({ code: 'origin_not_allowed', after: 0, detail: FLAG }));
    };
    const stub = await startStub({ answers, onSocket });
    try {
        for (const begin of [
            (atoll) => atoll.conversation('c1').follow({ transport: 'sse' }),
            (atoll) => atoll.conversation('c1').follow({ transport: 'websocket' }),
            (atoll) => atoll.sandbox('s1').processes.attach('p1'),
        ]) {
            tries = 0;
            const error = await errorOf(begin(paged(stub)).next());
            assert.deepEqual([error.code, error.detail, tries], ['origin_not_allowed', FLAG, 1], String(begin));
        }
    } finally {
        await stub.stop();
    }
});

test('an event that comes again is given once', async () => {
    let count = 0;
    const answers = {
        [`GET ${ROOT}/events`]: ({ response }) => sendFrames(response, ++count === 1 ? [event(1), event(2)] : [event(2), event(3, 'done')]),
    };
    await withStub({ answers }, async (conversation) => assertOnce(await until(conversation.follow(), ({ type }) => type === 'done')));
});

test('it comes back when the server said so, not before, and after the number that was seen', async () => {
    const afters = [];
    const answers = {
        [`GET ${ROOT}/events`]: ({ query, response }) => {
            afters.push(query.get('after'));
            if (afters.length === 1) return sendFrames(response, [event(1), { type: 'stream_closed', code: 'shutting_down', detail: 'bye', after: 1 }]);
            if (afters.length === 2) return refuse(response, 503, 'shutting_down', { 'Retry-After': '1' });
            return sendFrames(response, [event(2, 'done')]);
        },
    };
    await withStub({ answers }, async (conversation) => {
        const waits = [];
        const onStatus = (status, info) => status === 'waiting' && waits.push(info);
        const followed = conversation.follow({ onStatus });
        assertOnce(await until(followed, ({ type }) => type === 'done'));
        assert.deepEqual(waits.map(({ code }) => code), ['shutting_down', 'shutting_down']);
        assert.ok(waits[0].delayMs >= 250 && waits[0].delayMs <= 500, `${waits[0].delayMs}`);
        assert.ok(waits[1].delayMs >= 1000);
        assert.deepEqual(afters, ['0', '1', '1']);
        assert.equal(Number.parseInt(followed.after, 10), 2);
    });
});

test('a reader that is slower than the WebSocket holds a bounded number of events, and misses none', async () => {
    const LAST = 45_000;
    const afters = [];
    let firstClosed;
    const closed = new Promise((done) => (firstClosed = done));
    const onSocket = (socket, { query }) => {
        afters.push(Number.parseInt(query.get('after'), 10));
        socket.once('close', firstClosed);
        for (let seq = afters.at(-1) + 1; seq <= LAST; ++seq) socket.send(JSON.stringify(event(seq, seq === LAST ? 'done' : 'text_delta')));
    };
    const answers = { [`POST ${ROOT}/tokens`]: () => ({ token: 't' }), [`GET ${ROOT}/events`]: () => ({ logEpoch: 'e1', events: [], next: 0 }) };
    await withStub({ onSocket, answers }, async (conversation) => {
        const followed = conversation.follow({ transport: 'websocket' });
        const { value: first } = await followed.next();
        // Nothing is read until the client has closed the connection by itself.
        await closed;
        const events = [first, ...(await until(followed, ({ type }) => type === 'done'))];
        assertOnce(events);
        assert.equal(events.length, LAST);
        assert.ok(afters.length > 1 && afters[1] < 20_100, String(afters));
    });
});

test('a callback that throws ends the iteration with what it threw', async () => {
    const answers = { [`GET ${ROOT}/events`]: ({ response }) => sendFrames(response, [event(1)]), [`POST ${ROOT}/tokens`]: () => ({ token: 't' }) };
    await withStub({ answers, onSocket: (socket) => socket.send(JSON.stringify(event(1))) }, async (conversation) => {
        for (const transport of ['sse', 'websocket']) {
            const onStatus = () => {
                throw new RangeError('mine');
            };
            assert.equal((await errorOf(conversation.follow({ transport, onStatus }).next())).message, 'mine');
        }
    });
});

test('tokens that the server took may expire any number of times without an event between', async () => {
    const EXPIRIES = 8;
    for (const transport of ['sse', 'websocket']) {
        let opened = 0;
        const answers = { [`GET ${ROOT}/events`]: ({ response }) => sendFrames(response, [++opened <= EXPIRIES ? closed('token_expired') : event(1, 'done')]) };
        const onSocket = (socket) => {
            const isLast = ++opened > EXPIRIES;
            socket.on('message', () => {
                socket.send(REFUSED);
                if (isLast) socket.send(JSON.stringify(event(1, 'done')));
                else socket.close(4401, JSON.stringify({ code: 'token_expired' }));
            });
        };
        await withStub({ answers, onSocket }, async (_, stub) => {
            let asked = 0;
            const followed = paged(stub, { getToken: () => `t${++asked}` }).conversation('c1').follow({ transport });
            assertOnce(await until(followed, isDone));
            assert.deepEqual([asked, opened], [EXPIRIES + 1, EXPIRIES + 1]);
        });
    }
});

test('tokens that the server does not take are an error after the fifth', async () => {
    for (const transport of ['sse', 'websocket']) {
        const tokens = new Set();
        const refuseToken = ({ query, response }) => {
            tokens.add(query.get('token'));
            refuse(response, 401, 'token_expired');
        };
        const onSocket = (socket, { query }) => {
            tokens.add(query.get('token'));
            socket.close(4401, JSON.stringify({ code: 'token_expired' }));
        };
        await withStub({ answers: { [`GET ${ROOT}/events`]: refuseToken }, onSocket }, (_, stub) =>
            asBrowser(async (comeOnline) => {
                let asked = 0;
                const followed = paged(stub, { getToken: () => `t${++asked}` }).conversation('c1').follow({ transport, onStatus: () => setImmediate(comeOnline) });
                assert.equal((await errorOf(followed.next())).code, 'token_expired');
                assert.ok(tokens.size >= 5 && tokens.size <= 10, `${transport}: ${tokens.size}`);
            }));
    }
});

test('a backend that gives no token for some time is asked again, until it does', async () => {
    const FAILURES = 12;
    const answers = { [`GET ${ROOT}/events`]: ({ response }) => sendFrames(response, [event(1, 'done')]) };
    const failures = [() => Promise.reject(new Error('502')), () => undefined, () => null.token];
    await withStub({ answers }, (_, stub) =>
        asBrowser(async (comeOnline) => {
            let asked = 0;
            const waits = [];
            const getToken = () => (++asked > FAILURES ? 't' : failures[asked % failures.length]());
            const onStatus = (status, info) => status === 'waiting' && waits.push(info) && setImmediate(comeOnline);
            assertOnce(await until(paged(stub, { getToken }).conversation('c1').follow({ transport: 'sse', onStatus }), isDone));
            assert.equal(asked, FAILURES + 1);
            assert.ok(waits.every(({ code }) => code === 'no_token'), JSON.stringify(waits));
            assert.ok(waits[0].delayMs >= 250 && waits.at(-1).delayMs >= 5000);
        }));
});

test('that getToken says signed out ends it at once, whatever the code, also once it was connected', async () => {
    const answers = { [`GET ${ROOT}/events`]: ({ response }) => sendFrames(response, [event(1), closed('token_expired')]) };
    const WebSocket = fakeSockets((socket) => {
        socket.open();
        socket.tell(event(1));
        socket.onclose({ code: 4401, reason: '' });
    });
    await withStub({ answers }, async (_, stub) => {
        for (const [status, code] of [[401, 'signed_out'], [401, 'unauthorized'], [401, 'token_expired'], [403, 'invalid_token'], [404, 'not_found'], [404, 'conversation_ended']]) {
            const signedOut = new AtollError({ status, code });
            for (const transport of ['sse', 'websocket']) {
                for (const tokens of [[], ['t']]) {
                    let asked = 0;
                    const getToken = () => (++asked <= tokens.length ? 't' : Promise.reject(signedOut));
                    const followed = paged(stub, { getToken, WebSocket }).conversation('c1').follow({ transport });
                    assert.equal(await errorOf(until(followed, () => false)), signedOut, `${transport} ${code}`);
                    assert.equal(asked, tokens.length + 1);
                }
            }
        }
    });
});

test('a token may come late, is asked for once by all who need it, and nobody who left gets it', async () => {
    const answers = {
        [`GET ${ROOT}/events`]: ({ response }) => sendFrames(response, [event(1, 'done')]),
        [`POST ${ROOT}/messages`]: () => ({ turn: 't1', after: 3 }),
    };
    await withStub({ answers }, async (_, stub) => {
        const asked = [];
        const getToken = ({ signal }) => new Promise((give) => asked.push({ give, signal }));
        const told = [];
        const WebSocket = fakeSockets((socket) => {
            socket.open();
            socket.tell(event(1, 'done'));
        });
        // No connection is opened before the token is there, so no silence is measured; a client with such a short one would ask often.
        const conversation = paged(stub, { getToken, WebSocket, silenceMs: 1, onRetry: (failed) => told.push(failed) }).conversation('c1');
        const stop = new AbortController();
        const left = errorOf(conversation.send('x', { signal: stop.signal }));
        const followed = ['sse', 'websocket'].map((transport) => conversation.follow({ transport }));
        const calls = followed.map((each) => each.next());
        const timed = errorOf(conversation.send('x', { timeoutMs: 50 }));
        assert.equal((await timed).code, 'timeout');
        stop.abort(new Error('enough'));
        assert.equal((await left).message, 'enough');
        assert.deepEqual([asked.length, asked[0].signal.aborted, told], [1, false, []]);
        asked[0].give('late');
        assert.equal((await calls[1]).value.seq, 1);
        assert.equal(asked.length, 1);
        await followed[0].return();
        await calls[0];
        const other = paged(stub, { getToken, silenceMs: 1 }).conversation('c1').follow({ transport: 'sse' });
        const next = other.next();
        await Promise.resolve();
        await other.return();
        assert.equal((await next).done, true);
        assert.deepEqual([asked.length, asked[1].signal.aborted], [2, true]);
    });
});

test('a connection that tells nothing, opening or open, is given up for another one', async () => {
    const silenceMs = 1000;
    const hang = new Promise(() => {});
    let asked = 0;
    const events = ({ query, response }) => {
        if (query.get('limit') !== null) return { logEpoch: 'e1', events: [], next: 0 };
        return ++asked === 1 ? hang : sendFrames(response, [event(1, 'done')]);
    };
    await withStub({ answers: { [`GET ${ROOT}/events`]: events } }, async (_, stub) => {
        const details = [];
        const onStatus = (status, { detail }) => status === 'waiting' && details.push(detail);
        assertOnce(await until(paged(stub, { silenceMs }).conversation('c1').follow({ transport: 'sse', onStatus }), isDone));
        assert.equal(details[0], `GET ${ROOT}/events: no answer within 1000 ms`);
    });
    const WebSocket = fakeSockets((socket, _, number) => {
        if (number > 1) socket.open();
        if (number > 2) socket.tell(event(1, 'done'));
    });
    await withStub({ answers: { [`GET ${ROOT}/events`]: events } }, async (_, stub) => {
        const details = [];
        const onStatus = (status, { detail }) => status === 'waiting' && details.push(detail);
        assertOnce(await until(paged(stub, { silenceMs, WebSocket }).conversation('c1').follow({ onStatus }), isDone));
        assert.deepEqual(details, ['the WebSocket was not open within 1000 ms', 'the WebSocket was silent for 1000 ms']);
    });
});

test('a browser that is online again asks the WebSocket for a sign of life at once, and what answers lives', async () => {
    const PROBES = 5;
    let opened = 0;
    let probes = 0;
    await asBrowser(async (comeOnline) => {
        const onSocket = (socket) => {
            ++opened;
            socket.on('message', (data) => {
                assert.equal(String(data), 'ping');
                socket.send(REFUSED);
                socket.send(JSON.stringify(event(++probes, probes === PROBES ? 'done' : 'text_delta')));
            });
        };
        const answers = { [`GET ${ROOT}/events`]: () => ({ logEpoch: 'e1', events: [], next: 0 }) };
        await withStub({ answers, onSocket }, async (_, stub) => {
            const events = await until(paged(stub).conversation('c1').follow(), isDone, comeOnline);
            assertOnce(events);
            assert.deepEqual([opened, events.length], [1, PROBES]);
        });
    });
});

test('a message over a connection that tells nothing is sent again with its key', async () => {
    const keys = [];
    const post = ({ headers }) => {
        keys.push(headers['idempotency-key']);
        return keys.length === 1 ? new Promise(() => {}) : { turn: 't1', after: 3 };
    };
    await withStub({ answers: { [`POST ${ROOT}/messages`]: post } }, async (_, stub) => {
        const told = [];
        const conversation = keyed(stub, { silenceMs: 1000, onRetry: ({ error }) => told.push(error.detail) }).conversation('c1');
        assert.deepEqual(await conversation.send('once'), { turn: 't1', after: 3 });
        assert.deepEqual([keys.length, new Set(keys).size], [told.length + 1, 1]);
        assert.equal(told[0], `POST ${ROOT}/messages: no answer within 1000 ms`);
    });
});
