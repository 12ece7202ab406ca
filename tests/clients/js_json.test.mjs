// clients/js: integers beyond 2^53 in what it reads and sends. sandbox_stub.mjs stands in for the server.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseJson, toJson } from '../../clients/js/src/json.js';
import { keyed, until } from './js_lab.mjs';
import { startStub } from './sandbox_stub.mjs';

const BIG = '9007199254740993';
const JSON_TYPE = { 'Content-Type': 'application/json' };

test('an integer that a number cannot hold is a BigInt, and everything else is what JSON.parse gives', () => {
    const exact = `[${BIG}, -${BIG}, 9007199254740992, 18446744073709551615, 9007199254740991, -9007199254740991]`;
    assert.deepEqual(parseJson(exact), [9007199254740993n, -9007199254740993n, 9007199254740992n, 18446744073709551615n, 2 ** 53 - 1, 1 - 2 ** 53]);
    const nested = `{"a":{"b":[{"${BIG}":${BIG}}]},"text":"${BIG}"}`;
    assert.deepEqual(parseJson(nested), { a: { b: [{ [BIG]: 9007199254740993n }] }, text: BIG });
    assert.equal(parseJson(BIG), 9007199254740993n);
    for (const same of [
        '{"a":[1,2.5,-0,1e21,true,null,"x"]}',
        `[9007199254740993.0,0.1234567890123456789,1.2345678901234567e3,12345678901234567e2]`,
        `"${BIG}"`,
        `["\\"${BIG}","\\\\",${'1'.repeat(15)},"${BIG}\\\\\\"${BIG}"]`,
        `{"__proto__":{"a":1},"${BIG}":"\\u0022${BIG}"}`,
    ]) assert.deepEqual(parseJson(same), JSON.parse(same), same);
    assert.deepEqual(parseJson(`["\\"${BIG}\\\\",${BIG}]`), [`"${BIG}\\`, 9007199254740993n]);
    for (const wrong of [`[${BIG}`, `["${BIG}`, `["${BIG}\\"]`, `{"a":0${BIG}}`, `[${BIG}"x"]`, `[--${BIG}]`]) assert.throws(() => parseJson(wrong), SyntaxError, wrong);
});

test('strings of any length are read as they are', () => {
    const long = JSON.stringify({ text: 'x"\\'.repeat(300_000), digits: '1'.repeat(1_000_000) });
    const { text, digits, big } = parseJson(`${long.slice(0, -1)},"big":${BIG}}`);
    assert.deepEqual([text.length, digits.length, big], [900_000, 1_000_000, 9007199254740993n]);
});

test('a BigInt is sent as an integer with its digits, and everything else as JSON.stringify has it', () => {
    assert.equal(toJson({ a: [9007199254740993n, -5n, '5'], b: undefined }), `{"a":[${BIG},-5,"5"]}`);
    const plain = { a: [1, 'x', null, undefined, new Date(0)], text: '"1"' };
    assert.equal(toJson(plain), JSON.stringify(plain));
    const value = { n: 2n ** 64n - 1n, deep: [{ m: -(2n ** 63n) }], text: '18446744073709551615' };
    assert.deepEqual(parseJson(toJson(value)), value);
});

test('answers, events of both kinds of streams and requests keep their digits', async () => {
    const event = (seq, type) => `{"seq":${seq},"type":"${type}","at":"","turn":"t1","data":{"n":${BIG}}}`;
    const info = `{"id":"c1","metadata":{"n":${BIG}}}`;
    const bodies = [];
    const answer = ({ body, response }) => {
        bodies.push(String(body));
        response.writeHead(200, JSON_TYPE).end(info);
    };
    const events = ({ query, response }) => {
        if (query.get('limit') !== null) return { logEpoch: 'e1', events: [], next: 0 };
        response.writeHead(200, { 'Content-Type': 'text/event-stream' }).end(`data: ${event(1, 'message')}\n\ndata: ${event(2, 'done')}\n\n`);
    };
    const answers = { 'GET /v1/conversations/c1': answer, 'PATCH /v1/conversations/c1': answer, 'GET /v1/conversations/c1/events': events };
    const onSocket = (socket) => [event(1, 'message'), event(2, 'done')].forEach((frame) => socket.send(frame));
    const stub = await startStub({ answers, onSocket });
    try {
        const conversation = await keyed(stub).conversations.get('c1');
        assert.deepEqual(conversation.info.metadata, { n: 9007199254740993n });
        await conversation.update({ metadata: conversation.info.metadata });
        assert.equal(bodies.at(-1), `{"metadata":{"n":${BIG}}}`);
        for (const transport of ['sse', 'websocket']) {
            const seen = await until(conversation.follow({ transport, after: '0' }), ({ type }) => type === 'done');
            assert.deepEqual(seen.map(({ seq, data }) => [seq, data.n]), [[1, 9007199254740993n], [2, 9007199254740993n]], transport);
        }
    } finally {
        await stub.stop();
    }
});
