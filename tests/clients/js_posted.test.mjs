// clients/js: the attachment to a process where there is no WebSocket, by an event stream and POSTs. sandbox_stub.mjs stands in for the
// server: these are tests of the wire form, and of answers that a real server gives rarely.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { AtollError } from '../../clients/js/src/index.js';
import { errorOf, keyed, SOCKETS, until } from './js_lab.mjs';
import { refuse, sendFrames, startStub } from './sandbox_stub.mjs';

const PROCESS = '/v1/sandboxes/s1/processes/p1';
const STARTED = { type: 'started', pid: 7, after: 0, pty: false };
const EXIT = { type: 'exit', exitCode: 0, signal: null, timedOut: false, after: 0 };
const all = (iteration) => until(iteration, () => false);
const textOf = (frames) => frames.map(({ bytes }) => (bytes ? new TextDecoder().decode(bytes) : '')).join('');

/** Runs `run(processes, stub, sandbox)` against a stub, by a client without a WebSocket. */
async function withStub(answers, run) {
    const stub = await startStub({ answers });
    try {
        const sandbox = keyed(stub, { WebSocket: null }).sandbox('s1');
        await run(sandbox.processes, stub, sandbox);
    } finally {
        await stub.stop();
    }
}

/**
 * The answers of a process that says `started` and waits: `tell(frame)` sends on its stream, `posts` has what came, as [action, text], and
 * `answer(number, response, post)` may answer a post; what it leaves is taken.
 */
function fed({ pty = false, answer = () => {} } = {}) {
    const made = { posts: [], opened: 0, told: null };
    made.tell = (frame) => made.told.write(`data: ${JSON.stringify(frame)}\n\n`);
    made.answers = {
        [`GET ${PROCESS}/output`]: ({ response }) => {
            ++made.opened;
            made.told = response;
            sendFrames(response, [{ ...STARTED, pty }], { end: 'open' });
        },
    };
    for (const action of ['stdin', 'signal', 'resize']) {
        made.answers[`POST ${PROCESS}/${action}`] = async ({ body, query, response }) => {
            const post = [query.get('eof') === '1' ? 'eof' : action, String(body)];
            made.posts.push(post);
            await answer(made.posts.length, response, post);
            if (!response.headersSent && !response.destroyed) response.writeHead(204).end();
        };
    }
    return made;
}

test('the output goes on at the byte where its stream broke, counts bytes, and ends with the exit', async () => {
    const afters = [];
    const rounds = [
        [STARTED, { type: 'stdout', text: 'é' }, { type: 'stderr', base64: '/w==' }],
        [{ ...STARTED, after: 3 }, { type: 'dropped', bytes: 1000 }, { type: 'stdout', text: 'ab' }, { type: 'stream_closed', code: 'shutting_down', detail: 'd', after: 1005 }],
        [{ ...STARTED, after: 1005 }, { ...EXIT, after: 1005 }],
    ];
    const output = ({ query, headers, response }) => {
        assert.equal(headers.accept, 'text/event-stream');
        afters.push(query.get('after'));
        sendFrames(response, rounds[afters.length - 1]);
    };
    await withStub({ [`GET ${PROCESS}/output`]: output }, async (processes) => {
        const attached = processes.attach('p1');
        const frames = await all(attached);
        assert.deepEqual(frames.map(({ type }) => type), ['started', 'stdout', 'stderr', 'started', 'dropped', 'stdout', 'started', 'exit']);
        assert.deepEqual([...frames[1].bytes, ...frames[2].bytes], [195, 169, 255]);
        assert.deepEqual(frames[4], { type: 'dropped', bytes: 1000 });
        assert.deepEqual(frames.at(-1), { ...EXIT, after: 1005 });
        assert.deepEqual([afters, attached.after], [['0', '3', '1005'], 1005]);
        assert.throws(() => attached.write('late'), { code: 'process_ended' });
    });
});

test('a token that expires is renewed for the stream and for the input; what cannot pass ends the attachment', async () => {
    const tokens = [];
    const output = ({ query, response }) => {
        tokens.push(query.get('token'));
        if (tokens.length === 1) return sendFrames(response, [STARTED, { type: 'stream_closed', code: 'token_expired', detail: 'd', after: 0 }]);
        sendFrames(response, [STARTED, { type: 'stream_closed', code: 'sandbox_gone', detail: 'gone', after: 0 }]);
    };
    await withStub({ [`GET ${PROCESS}/output`]: output }, async (processes) => {
        let asked = 0;
        const getToken = ({ sandboxId, scope }) => `${sandboxId}-${scope}-${++asked}`;
        const error = await errorOf(all(processes.attach('p1', { getToken })));
        assert.deepEqual([error instanceof AtollError, error.code, tokens], [true, 'sandbox_gone', ['s1-terminal-1', 's1-terminal-2']]);
    });
    await withStub({}, async (processes) => {
        const signedOut = new AtollError({ status: 401, code: 'token_expired' });
        assert.equal(await errorOf(all(processes.attach('p1', { getToken: () => Promise.reject(signedOut) }))), signedOut);
        assert.equal((await errorOf(all(processes.attach('p1')))).code, 'not_found');
    });
});

test('input is posted in its order, each once the one before was taken; what stands together goes together', async () => {
    let release;
    const held = new Promise((done) => (release = done));
    let atOnce = 0;
    const process = fed({
        answer: async (number) => {
            assert.equal(++atOnce, 1);
            if (number === 1) await held;
            --atOnce;
            if (number === 6) process.tell(EXIT);
        },
    });
    await withStub(process.answers, async (processes) => {
        const attached = processes.attach('p1');
        // Before there is a connection: it waits.
        attached.resize({ cols: 80, rows: 24 });
        await until(attached, ({ type }) => type === 'exit', ({ type }) => {
            if (type !== 'started') return;
            for (const text of ['a', 'bé', 'c']) attached.write(text);
            attached.signal('SIGINT');
            attached.write('d');
            attached.eof();
            attached.resize({ cols: 1, rows: 1 });
            release();
        });
        const wanted = [['resize', '{"cols":80,"rows":24}'], ['stdin', 'abéc'], ['signal', '{"signal":"SIGINT"}'], ['stdin', 'd'], ['eof', ''], ['resize', '{"cols":1,"rows":1}']];
        assert.deepEqual(process.posts, wanted);
    });
});

test('the end of the input of a terminal is a typed Ctrl-D, and a terminal is closed', async () => {
    const process = fed({ pty: true, answer: (_, response, [action]) => action === 'signal' && process.tell(EXIT) });
    process.answers['POST /v1/sandboxes/s1/processes'] = () => ({ processId: 'p1', pid: 7 });
    await withStub(process.answers, async (processes, stub, sandbox) => {
        const attached = processes.attach('p1');
        attached.eof();
        await until(attached, ({ type }) => type === 'exit', ({ type }) => type === 'started' && setImmediate(() => process.tell(EXIT)));
        const terminal = await sandbox.terminal({ cols: 100, rows: 30 });
        terminal.write('l');
        const shown = new Promise((done) => terminal.onData(done));
        while (process.opened < 2) await stub.nextArrival();
        process.tell({ type: 'stdout', text: '$ ' });
        assert.equal(new TextDecoder().decode(await shown), '$ ');
        await terminal.close();
        assert.deepEqual(process.posts, [['stdin', '\u0004'], ['stdin', 'l'], ['signal', '{"signal":"SIGHUP"}']]);
    });
});

test('long input goes in requests of a bounded length', async () => {
    const input = Uint8Array.from({ length: 1024 * 1024 + 5 }, (_, i) => i % 251);
    const parts = [];
    const process = fed();
    process.answers[`POST ${PROCESS}/stdin`] = ({ body, query, response }) => {
        parts.push(body);
        response.writeHead(204).end();
        if (query.get('eof') === '1') process.tell(EXIT);
    };
    await withStub(process.answers, async (processes) => {
        const attached = processes.attach('p1');
        await until(attached, ({ type }) => type === 'exit', ({ type }) => {
            if (type !== 'started') return;
            attached.write(input);
            attached.eof();
        });
        assert.ok(parts.every(({ length }) => length <= 256 * 1024) && parts.length < 8, `${parts.length} requests`);
        assert.ok(Buffer.concat(parts).equals(input));
    });
});

test('a frame that the server refuses is told, and what follows goes on; input that may be missing ends the attachment', async () => {
    const process = fed({
        answer: (number, response) => {
            if (number === 1) refuse(response, 422, 'invalid_field');
            if (number === 2) process.tell(EXIT);
        },
    });
    await withStub(process.answers, async (processes) => {
        const attached = processes.attach('p1');
        attached.signal('SIGNOTHING');
        attached.write('x');
        const frames = await all(attached);
        assert.deepEqual(frames.map(({ type }) => type), ['started', 'rejected', 'exit']);
        assert.deepEqual(frames[1], { type: 'rejected', code: 'invalid_field', detail: 'told invalid_field' });
    });
    for (const [status, code] of [[504, 'deadline_exceeded'], [429, 'too_many_requests'], [502, 'bridge_failed']]) {
        const refusing = fed({ answer: (_, response) => refuse(response, status, code) });
        await withStub(refusing.answers, async (processes) => {
            const attached = processes.attach('p1');
            attached.write('x');
            attached.eof();
            const error = await errorOf(all(attached));
            assert.deepEqual([error.code, error.detail], ['input_refused', `Input may be missing. told ${code}`]);
            assert.deepEqual(refusing.posts, [['stdin', 'x']]);
            assert.throws(() => attached.write('y'), { code: 'process_ended' });
        });
    }
});

test('input that was not begun, as one request too many, is posted again', async () => {
    const process = fed({
        answer: (number, response) => {
            if (number < 3) refuse(response, 429, 'too_many_requests', { 'Retry-After': '0' });
            else process.tell(EXIT);
        },
    });
    await withStub(process.answers, async (processes) => {
        const attached = processes.attach('p1');
        attached.write('x');
        assert.deepEqual((await all(attached)).map(({ type }) => type), ['started', 'exit']);
        assert.deepEqual(process.posts, [['stdin', 'x'], ['stdin', 'x'], ['stdin', 'x']]);
    });
});

test('a request that breaks is not repeated: there is another connection, and the input behind it goes on', async () => {
    const process = fed({
        answer: (number, response) => {
            if (number === 1) response.destroy();
            else process.tell(EXIT);
        },
    });
    await withStub(process.answers, async (processes) => {
        const attached = processes.attach('p1');
        attached.write('lost');
        attached.resize({ cols: 1, rows: 1 });
        assert.deepEqual((await all(attached)).map(({ type }) => type), ['started', 'started', 'exit']);
        assert.deepEqual([process.posts.map(([action]) => action), process.opened], [['stdin', 'resize'], 2]);
    });
});

test('what was written before the attachment is left is still posted', async () => {
    let release;
    const held = new Promise((done) => (release = done));
    let ended;
    const last = new Promise((done) => (ended = done));
    const process = fed({
        answer: async (number) => {
            if (number === 1) await held;
            if (number === 2) ended();
        },
    });
    await withStub(process.answers, async (processes) => {
        const attached = processes.attach('p1');
        await until(attached, ({ type }) => type === 'started');
        assert.throws(() => attached.write('behind the end'), { code: 'process_ended' });
        const other = processes.attach('p1');
        for await (const { type } of other) {
            if (type !== 'started') continue;
            other.write('y\n');
            other.eof();
            break;
        }
        release();
        await last;
        assert.deepEqual(process.posts, [['stdin', 'y\n'], ['eof', '']]);
    });
});

test('transport chooses, and a page of output has its bytes and the exit', async () => {
    const process = fed();
    const page = { after: 2, next: 9, dropped: 3, stdoutBase64: '//4=', stderr: 'é', exit: { exitCode: 0, signal: null, timedOut: false } };
    const { [`GET ${PROCESS}/output`]: stream } = process.answers;
    process.answers[`GET ${PROCESS}/output`] = (request) => (request.headers.accept === 'text/event-stream' ? stream(request) : { ...page, after: Number(request.query.get('after')) });
    const stub = await startStub({ answers: process.answers });
    try {
        const { processes } = keyed(stub, { WebSocket: SOCKETS.ws }).sandbox('s1');
        assert.equal((await processes.attach('p1', { transport: 'sse' }).next()).value.type, 'started');
        assert.equal(process.opened, 1);
        const without = keyed(stub, { WebSocket: null }).sandbox('s1').processes;
        assert.match((await errorOf(without.attach('p1', { transport: 'websocket' }).next())).message, /no WebSocket here/);
        const told = await without.output('p1', { after: 2 });
        assert.deepEqual([told.after, told.next, told.dropped, told.stdout, told.stderr, told.exit], [2, 9, 3, '\ufffd\ufffd', 'é', page.exit]);
        assert.deepEqual([[...told.stdoutBytes], told.stderrBytes.length, 'stdoutBase64' in told], [[255, 254], 2, false]);
    } finally {
        await stub.stop();
    }
});
