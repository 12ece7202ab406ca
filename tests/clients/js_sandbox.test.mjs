// clients/js: what it sends for commands, files, processes and tools, and what it makes of the answers. sandbox_stub.mjs stands
// in for the server: these are tests of the wire form that docs and /openapi.json describe, not of a sandbox.
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { AtollError } from '../../clients/js/src/index.js';
import { encodePath } from '../../clients/js/src/files.js';
import { FrameParser } from '../../clients/js/src/sse.js';
import { errorOf, keyed, SOCKETS, until } from './js_lab.mjs';
import { refuse, sendFrames, startStub } from './sandbox_stub.mjs';

const ROOT = '/v1/sandboxes/s1';
const all = (iteration) => until(iteration, () => false);
const bytes = (...values) => Uint8Array.from(values);

/** Runs `run(sandbox, stub)` against a stub. */
async function withStub(options, run) {
    const stub = await startStub(options);
    try {
        await run(keyed(stub).sandbox('s1'), stub);
    } finally {
        await stub.stop();
    }
}

test('frames come whole out of any pieces, with any end of line', () => {
    const text = ': heartbeat\n\nid: 1\ndata: {"a":1}\n\ndata: one\r\ndata:two\r\n\r\nevent: x\rdata: é\r\r\ndata: last\n\n';
    const wanted = ['{"a":1}', 'one\ntwo', 'é', 'last'];
    for (let size = 1; size <= text.length; ++size) {
        const parser = new FrameParser();
        const frames = [];
        for (let at = 0; at < text.length; at += size) frames.push(...parser.push(text.slice(at, at + size)));
        assert.deepEqual(frames, wanted, `pieces of ${size}`);
    }
});

test('a path is encoded, of an entry the href is taken, and nothing in it is resolved', () => {
    for (const [path, wanted] of [
        ['a b/ü?#.txt', 'a%20b/%C3%BC%3F%23.txt'],
        ['50%20off', '50%2520off'],
        [{ path: 'bad\ufffdname', href: 'bad%FFname' }, 'bad%FFname'],
        [{ href: '' }, ''],
        ['100%', '100%25'],
        ['100%zz', '100%25zz'],
        ['a%41', 'a%2541'],
        ['a/%2e%2E', 'a/%252e%252E'],
        ['[id].tsx', '%5Bid%5D.tsx'],
        ['/workspace/a', 'a'],
        ['/workspace', ''],
        ['workspace/a', 'workspace/a'],
        ['./a//b/', 'a/b'],
        ['new\nline', 'new%0Aline'],
        ['..a/b..', '..a/b..'],
    ]) assert.equal(encodePath(path), wanted);
    const hostile = ['..', 'a/../b', 'a/%2e%2E', './a', '/a', 'a?b', 'a#b', 'a\\b', 'a%', 7, undefined].map((href) => ({ href }));
    for (const path of ['../a', 'a/../b', '/etc/passwd', '/workspacex', ...hostile])
        assert.throws(() => encodePath(path), { code: 'invalid_path' }, JSON.stringify(path));
});

test('exec: a command or an argv, with its output as text and as bytes', async () => {
    const result = { exitCode: 3, signal: null, timedOut: false, stdout: 'héllo', stderrBase64: '//4=', truncated: { stdout: false, stderr: false }, durationMs: 5 };
    await withStub({ answers: { [`POST ${ROOT}/exec`]: () => result } }, async (sandbox, { requests }) => {
        const done = await sandbox.exec('exit 3', { cwd: 'src', stdin: bytes(255, 0), timeoutMs: 100 });
        assert.deepEqual([done.exitCode, done.stdout, done.stderr], [3, 'héllo', '\ufffd\ufffd']);
        assert.deepEqual([...done.stderrBytes], [255, 254]);
        assert.equal(done.stdoutBytes.length, 6);
        assert.deepEqual(JSON.parse(requests[0].body), { command: 'exit 3', cwd: 'src', stdinBase64: '/wA=', timeoutMs: 100 });
        assert.equal(requests[0].headers.authorization, 'Bearer stub-key');
        await sandbox.exec(['ls', '-l'], { stdin: 'text' });
        assert.deepEqual(JSON.parse(requests[1].body), { argv: ['ls', '-l'], stdin: 'text' });
    });
    await withStub({}, async (sandbox) => assert.ok((await errorOf(sandbox.exec(7))) instanceof TypeError));
});

test('exec.stream: output as it comes and the exit; a stream that ends before is an error', async () => {
    const frames = [{ type: 'stdout', text: 'a' }, { type: 'stderr', base64: '/w==' }, { type: 'exit', exitCode: 0, signal: null }];
    let count = 3;
    const answers = { [`POST ${ROOT}/exec`]: ({ response }) => sendFrames(response, frames.slice(0, count)) };
    await withStub({ answers }, async (sandbox, { requests }) => {
        const [out, err, exit] = await all(sandbox.exec.stream(['true']));
        assert.deepEqual([out.type, out.data, [...out.bytes]], ['stdout', 'a', [97]]);
        assert.deepEqual([err.type, err.data, [...err.bytes]], ['stderr', '\ufffd', [255]]);
        assert.deepEqual(exit, frames[2]);
        assert.equal(requests[0].headers.accept, 'text/event-stream');
        count = 1;
        assert.equal((await errorOf(all(sandbox.exec.stream(['true'])))).code, 'connection_failed');
        frames[0] = { type: 'stream_closed', code: 'shutting_down', detail: 'bye' };
        assert.equal((await errorOf(all(sandbox.exec.stream(['true'])))).code, 'shutting_down');
    });
});

test('files are read, as a whole, in part and as a stream, and written from whatever holds bytes', async () => {
    const written = [];
    const answers = {
        [`GET ${ROOT}/files/a%20b`]: ({ headers, response }) => void response.writeHead(headers.range ? 206 : 200).end(headers.range ? 'ell' : 'hello'),
        [`PUT ${ROOT}/files/new`]: (request) => (written.push(request), { path: 'new' }),
    };
    await withStub({ answers }, async ({ files }, { requests }) => {
        assert.equal(await files.readText('a b'), 'hello');
        assert.deepEqual([...(await files.read('a b', { range: { start: 1, end: 4 } }))], [101, 108, 108]);
        assert.equal(requests[1].headers.range, 'bytes=1-3');
        assert.equal(await new Response(await files.readStream('a b')).text(), 'hello');
        async function* pieces() {
            yield 'he';
            yield bytes(108, 108, 111);
        }
        for (const data of ['hello', new TextEncoder().encode('hello'), new Blob(['hello']), new Blob(['hello']).stream(), pieces()])
            await files.write('new', data, { mode: 0o755, inplace: true, ifMatch: '"x"' });
        for (const { body, query, headers } of written) {
            assert.equal(body.toString(), 'hello');
            assert.deepEqual([query.get('mode'), query.get('inplace'), headers['if-match']], ['0755', '1', '"x"']);
        }
        assert.equal(written.length, 5);
        const missing = await errorOf(files.read('none'));
        assert.deepEqual([missing.status, missing.code, missing.requestId], [404, 'not_found', 'r1']);
        assert.equal((await errorOf(files.read('../x'))).code, 'invalid_path');
    });
});

test('files are listed over all pages, described, made, moved, copied, removed, packed and unpacked', async () => {
    const told = [];
    const answers = {
        [`GET ${ROOT}/files/`]: ({ query }) => (query.get('cursor') === null ? { entries: [{ path: 'a', href: 'a' }], next: 'c' } : { entries: [{ path: 'bad\ufffd', href: 'bad%FF' }], next: null }),
        [`GET ${ROOT}/files/bad%FF`]: ({ query }) => ({ href: 'bad%FF', asked: query.get('stat') }),
        [`POST ${ROOT}/files/d`]: ({ body, response }) => (told.push(JSON.parse(body)), void response.writeHead(204).end()),
        [`DELETE ${ROOT}/files/d`]: ({ query, response }) => (told.push(query.get('recursive')), void response.writeHead(204).end()),
        [`GET ${ROOT}/archive`]: ({ response }) => void response.end('tar'),
        [`PUT ${ROOT}/archive`]: ({ body }) => ({ unpacked: body.toString() }),
    };
    await withStub({ answers }, async ({ files }, { requests }) => {
        const entries = await all(files.list('', { depth: 2 }));
        assert.deepEqual(entries.map(({ path }) => path), ['a', 'bad\ufffd']);
        assert.deepEqual([requests[0].query.get('list'), requests[0].query.get('depth'), requests[1].query.get('cursor')], ['1', '2', 'c']);
        assert.equal((await files.stat(entries[1])).asked, '1');
        await files.mkdir('d');
        await files.move('d', 'e');
        await files.copy('d', 'f');
        await files.copy('d', { href: 'f%FF' });
        await files.remove('d', { recursive: true });
        assert.deepEqual(told, [{ op: 'mkdir' }, { op: 'move', to: 'e' }, { op: 'copy', to: 'f' }, { op: 'copy', toHref: 'f%FF' }, '1']);
        assert.equal(await new Response(await files.archive()).text(), 'tar');
        assert.deepEqual(await files.unpack('tar'), { unpacked: 'tar' });
        await files.archive({ path: entries[1] });
        await files.archive({ path: '50%20off' });
        await files.archive({ path: 'd', format: 'zip' });
        await files.unpack('PK', { path: 'd', format: 'zip' });
        assert.deepEqual(requests.slice(-4).map(({ target }) => target), ['path=bad%FF', 'path=50%2520off', 'path=d&format=zip', 'path=d&format=zip'].map((query) => `${ROOT}/archive?${query}`));
    });
});

test('caches and histories of the top are asked for with `all`, and not without', async () => {
    const answers = {
        [`GET ${ROOT}/files/`]: () => ({ entries: [], next: null }),
        [`GET ${ROOT}/archive`]: ({ response }) => void response.end('tar'),
        [`GET ${ROOT}/watch`]: ({ response }) => refuse(response, 507, 'disk_full'),
    };
    const local = await mkdtemp(join(tmpdir(), 'atoll-'));
    try {
        await withStub({ answers }, async ({ files }, { requests }) => {
            for (const options of [{}, { all: false }, { all: true }]) {
                await all(files.list('', options));
                await (await files.archive(options)).cancel();
                await errorOf(all(files.watch(options)));
                await files.downloadDir('', local, options);
                assert.deepEqual(requests.slice(-4).map(({ query }) => query.get('all')), Array(4).fill(options.all ? '1' : null));
            }
        });
    } finally {
        await rm(local, { recursive: true });
    }
});

test('a watch that is refused for a moment is tried again, one that is refused for a full disk is not', async () => {
    let asked = 0;
    const answer = ({ response }) => (++asked === 1 ? refuse(response, 503, 'capacity', { 'Retry-After': '0' }) : refuse(response, 507, 'disk_full'));
    await withStub({ answers: { [`GET ${ROOT}/watch`]: answer } }, async ({ files }) => {
        assert.equal((await errorOf(all(files.watch()))).code, 'disk_full');
        assert.equal(asked, 2);
    });
});

test('a watch goes on after a connection that broke, and says so with a rescan', async () => {
    let opened = 0;
    const change = () => ({ type: 'changes', changes: [{ change: 'created', path: `f${++opened}`, directory: false }] });
    const answers = { [`GET ${ROOT}/watch`]: ({ response }) => sendFrames(response, [{ type: 'started' }, change()]) };
    await withStub({ answers }, async ({ files }, { requests }) => {
        const seen = await until(files.watch({ path: 'src', recursive: false }), ({ changes }) => changes?.[0].path === 'f2');
        assert.deepEqual(seen.map(({ type, changes }) => changes?.[0].path ?? type), ['started', 'f1', 'rescan', 'f2']);
        assert.equal(requests[0].query.toString(), 'path=src&recursive=0');
    });
});

test('processes are started, listed, signalled, fed and resized', async () => {
    const empty = ({ response }) => void response.writeHead(204).end();
    const answers = {
        [`POST ${ROOT}/processes`]: () => ({ processId: 'p1', pid: 7 }),
        [`GET ${ROOT}/processes`]: () => ({ processes: [{ processId: 'p1', pid: 7 }] }),
        [`GET ${ROOT}/processes/p1`]: () => ({ processId: 'p1', pid: 7 }),
        [`POST ${ROOT}/processes/p1/signal`]: empty,
        [`POST ${ROOT}/processes/p1/stdin`]: empty,
        [`POST ${ROOT}/processes/p1/resize`]: empty,
    };
    await withStub({ answers }, async ({ processes }, { requests }) => {
        const { processId } = await processes.start('npm run dev', { tag: 'dev', restart: 'generation' });
        assert.deepEqual(await processes.list(), [await processes.get(processId)]);
        await processes.signal(processId, 'SIGINT');
        await processes.stdin(processId, 'y\n');
        await processes.resize(processId, { cols: 100, rows: 30 });
        const bodies = requests.filter(({ method }) => method === 'POST').map(({ body }) => body.toString());
        assert.deepEqual(bodies, ['{"command":"npm run dev","tag":"dev","restart":"generation"}', '{"signal":"SIGINT"}', 'y\n', '{"cols":100,"rows":30}']);
    });
});

/** A process whose output is `text`, in frames of 4 bytes; each connection but the last is cut after one more frame. */
function outputOver(text, connections) {
    const afters = [];
    const onSocket = (socket, { query }) => {
        afters.push(Number(query.get('after')));
        const rest = Buffer.from(text).subarray(afters.at(-1));
        const isLast = afters.length === connections;
        for (let at = 0; at < (isLast ? rest.length : 4); at += 4) socket.send(Buffer.concat([bytes(1 + (at / 4) % 2), rest.subarray(at, at + 4)]));
        if (!isLast) return socket.close(1001);
        socket.send(JSON.stringify({ type: 'exit', exitCode: 0, signal: null }));
    };
    return { afters, onSocket };
}

test('an attachment goes on at the byte where its connection broke, and ends with the exit', async () => {
    const { afters, onSocket } = outputOver('one two three four', 3);
    await withStub({ onSocket }, async ({ processes }) => {
        const attached = processes.attach('p1');
        const frames = await all(attached);
        assert.equal(frames.filter((frame) => frame.bytes).map((frame) => new TextDecoder().decode(frame.bytes)).join(''), 'one two three four');
        assert.ok(frames.some(({ type }) => type === 'stderr'));
        assert.equal(frames.at(-1).type, 'exit');
        assert.deepEqual(afters, [0, 4, 8]);
        assert.equal(attached.after, 18);
        assert.throws(() => attached.write('late'), { code: 'process_ended' });
    });
});

test('bytes that were dropped count, and a token that expired is renewed', async () => {
    const afters = [];
    const tokens = [];
    const onSocket = (socket, { query }) => {
        afters.push(Number(query.get('after')));
        tokens.push(query.get('token'));
        if (afters.length > 1) return socket.send(JSON.stringify({ type: 'exit', exitCode: null, signal: 'SIGKILL' }));
        socket.send(JSON.stringify({ type: 'dropped', bytes: 1000 }));
        socket.send(Buffer.from([1, 65]));
        socket.close(4401, JSON.stringify({ code: 'token_expired' }));
    };
    await withStub({ onSocket }, async ({ processes }) => {
        const wanted = [];
        const getToken = ({ sandboxId, scope }) => `${sandboxId}-${scope}-${wanted.push(scope)}`;
        const frames = await all(processes.attach('p1', { getToken }));
        assert.deepEqual(frames.map(({ type }) => type), ['dropped', 'stdout', 'exit']);
        assert.deepEqual(afters, [0, 1001]);
        assert.deepEqual(tokens, ['s1-terminal-1', 's1-terminal-2']);
    });
});

test('a terminal shows output, sends keys and sizes, and hangs up when it is closed', async () => {
    const got = [];
    let heard;
    const enough = new Promise((done) => (heard = done));
    const onSocket = (socket) => {
        socket.send(Buffer.concat([bytes(1), Buffer.from('$ ')]));
        socket.on('message', (data, isBinary) => {
            got.push(isBinary ? [...data] : JSON.parse(data));
            if (got.length === 2) heard();
        });
    };
    const answers = {
        [`POST ${ROOT}/processes`]: () => ({ processId: 'p1', pid: 7 }),
        [`POST ${ROOT}/processes/p1/signal`]: ({ response }) => void response.writeHead(204).end(),
    };
    await withStub({ onSocket, answers }, async (sandbox, { requests, sockets }) => {
        const terminal = await sandbox.terminal({ cols: 100, rows: 30 });
        // Sent before there is a connection: it waits.
        terminal.write('l');
        terminal.resize({ cols: 80, rows: 24 });
        await enough;
        assert.deepEqual(got, [[0, 108], { type: 'resize', cols: 80, rows: 24 }]);
        const shown = await new Promise((done) => terminal.onData(done));
        assert.equal(new TextDecoder().decode(shown), '$ ');
        await terminal.close();
        assert.deepEqual(requests.slice(-2).map(({ body }) => JSON.parse(body).signal), ['SIGHUP', 'SIGKILL']);
        assert.deepEqual(JSON.parse(requests[0].body), { argv: ['bash', '-il'], pty: { cols: 100, rows: 30 } });
        for (const socket of sockets.clients) await new Promise((done) => socket.once('close', done));
        terminal.write('late');
        await terminal.close();
    });
});

test('the exit of a terminal is told, and so is one that cannot be reached', async () => {
    const exit = { type: 'exit', exitCode: 1, signal: null };
    const answers = { [`POST ${ROOT}/processes`]: () => ({ processId: 'p1', pid: 7 }) };
    const ended = async (sandbox) => {
        const terminal = await sandbox.terminal();
        return new Promise((done) => terminal.onExit(done));
    };
    await withStub({ answers, onSocket: (socket) => socket.send(JSON.stringify(exit)) }, async (sandbox) => assert.deepEqual(await ended(sandbox), exit));
    const lost = (socket) => socket.close(4404, JSON.stringify({ code: 'sandbox_gone', after: 0 }));
    await withStub({ answers, onSocket: lost }, async (sandbox) => assert.equal((await ended(sandbox)).error.code, 'sandbox_gone'));
});

test('the key of a WebSocket travels in a header, and a refused handshake tells its reason', async () => {
    const keys = [];
    let isKnown = true;
    const onSocket = (socket, { headers, query }) => {
        keys.push([headers.authorization, query.get('token')]);
        socket.send(JSON.stringify({ type: 'started', pid: 7, after: 3, pty: false }));
        socket.send(JSON.stringify({ type: 'exit', exitCode: 0, signal: null }));
    };
    for (const WebSocket of Object.values(SOCKETS)) {
        const stub = await startStub({ onSocket, accepts: () => isKnown });
        try {
            isKnown = true;
            const attached = keyed(stub, { WebSocket }).sandbox('s1').processes.attach('p1');
            await all(attached);
            assert.equal(attached.after, 3);
            assert.deepEqual(keys.pop(), ['Bearer stub-key', null]);
            isKnown = false;
            assert.equal((await errorOf(all(keyed(stub, { WebSocket }).sandbox('s1').processes.attach('p1')))).code, 'not_found');
        } finally {
            await stub.stop();
        }
    }
});

test('tools are described and called; a tool that failed is a result', async () => {
    const result = { success: false, userFeedback: 'No such file.', previewRefreshNeeded: false, technicalDetails: { errorCode: 'FILE_NOT_FOUND' } };
    const answers = { 'GET /v1/tools': ({ query }) => Object.fromEntries(query), 'POST /v1/tools/read_file': () => result };
    await withStub({ answers }, async (sandbox, { requests }) => {
        assert.deepEqual(await sandbox.tools('openai'), { format: 'openai', sandboxId: 's1' });
        assert.deepEqual(await sandbox.tools(), { sandboxId: 's1' });
        assert.deepEqual(await sandbox.tools.call('read_file', { path: 'x' }, { toolCallId: 'c1' }), result);
        assert.deepEqual(JSON.parse(requests[2].body), { sandboxId: 's1', args: { path: 'x' }, context: { toolCallId: 'c1' } });
    });
});

test('the stream of a tool has its progress and its result; one that breaks off is an error', async () => {
    const progress = { type: 'tool_progress', toolCallId: 'c1', toolName: 'glob', status: 'running', progress: null, message: '9 files so far' };
    const result = { type: 'tool_result', toolCallId: 'c1', toolName: 'glob', result: { success: true } };
    const streams = [
        [progress, result],
        [progress, { type: 'error', code: 'bridge_failed', detail: 'gone' }],
        [progress],
    ];
    const answers = { 'POST /v1/tools/glob': ({ response }) => sendFrames(response, streams.shift()) };
    await withStub({ answers }, async (sandbox, { requests }) => {
        assert.deepEqual(await all(sandbox.tools.stream('glob', { pattern: '*' }, { toolCallId: 'c1' })), [progress, result]);
        assert.deepEqual(JSON.parse(requests[0].body), { sandboxId: 's1', args: { pattern: '*' }, context: { toolCallId: 'c1' } });
        assert.equal(requests[0].headers.accept, 'text/event-stream');
        assert.deepEqual((await errorOf(all(sandbox.tools.stream('glob', { pattern: '*' })))).code, 'bridge_failed');
        assert.deepEqual((await errorOf(all(sandbox.tools.stream('glob', { pattern: '*' })))).code, 'connection_failed');
    });
});

test('a change of files tells its progress where that is asked for; one that breaks off is an error', async () => {
    const progress = (op) => ({ type: 'file_progress', op, entries: 3, bytes: 7 });
    const frames = (op, status, result) => [progress(op), { type: 'file_result', op, status, result }];
    const streams = [frames('copy', 201, { path: 'e' }), frames('delete', 204, null), [progress('copy'), { type: 'error', code: 'disk_full', detail: 'd' }], [progress('copy')]];
    const answer = ({ response }) => sendFrames(response, streams.shift());
    const answers = { [`POST ${ROOT}/files/d`]: answer, [`DELETE ${ROOT}/files/d`]: answer, [`PUT ${ROOT}/archive`]: ({ response }) => sendFrames(response, frames('unpack', 200, { entries: 3, bytes: 7 })), [`PUT ${ROOT}/files/w`]: ({ response }) => sendFrames(response, frames('write', 201, { path: 'w' })) };
    await withStub({ answers }, async ({ files }, { requests }) => {
        const told = [];
        const onProgress = (one) => told.push(one);
        assert.deepEqual(await files.copy('d', 'e', { onProgress }), { path: 'e' });
        assert.equal(await files.remove('d', { recursive: true, onProgress }), undefined);
        assert.deepEqual(await files.unpack('tar', { onProgress }), { entries: 3, bytes: 7 });
        assert.deepEqual(await files.write('w', 'text', { onProgress }), { path: 'w' });
        assert.deepEqual(told, [progress('copy'), progress('delete'), progress('unpack'), progress('write')]);
        assert.ok(requests.every(({ headers }) => headers.accept === 'text/event-stream'));
        assert.equal(requests[2].body.toString(), 'tar');
        assert.equal(requests[3].body.toString(), 'text');
        assert.equal((await errorOf(files.copy('d', 'e', { onProgress }))).code, 'disk_full');
        assert.equal((await errorOf(files.copy('d', 'e', { onProgress }))).code, 'connection_failed');
    });
});

test('a request that can be sent again is, after what the server asked for; one that cannot is not', async () => {
    let asked = 0;
    const busy = ({ response }) => (++asked % 2 === 1 ? refuse(response, 503, 'shutting_down', { 'Retry-After': '1' }) : { processId: 'p1', pid: 7 });
    const answers = { [`GET ${ROOT}/processes/p1`]: busy, [`POST ${ROOT}/processes`]: busy };
    await withStub({ answers }, async ({ processes }) => {
        const began = performance.now();
        assert.equal((await processes.get('p1')).pid, 7);
        assert.ok(performance.now() - began >= 990);
        const error = await errorOf(processes.start('true'));
        assert.deepEqual([error.status, error.code, error.retryAfter], [503, 'shutting_down', 1]);
        assert.equal(asked, 3);
    });
});

test('each attempt that fails is told, of requests and of what goes on for ever, and a callback that throws ends it', async () => {
    const told = [];
    const busy = ({ response }) => refuse(response, 503, 'capacity', { 'Retry-After': '0' });
    const answers = { [`GET ${ROOT}/processes/p1`]: busy, [`GET ${ROOT}/watch`]: ({ response }) => sendFrames(response, [{ type: 'started' }]) };
    const stub = await startStub({ answers });
    try {
        const onRetry = (failed) => {
            told.push(failed);
            if (failed.path.endsWith('/watch') && failed.attempt === 2) throw new RangeError('enough');
        };
        const { processes, files } = keyed(stub, { onRetry }).sandbox('s1');
        assert.equal((await errorOf(processes.get('p1'))).code, 'capacity');
        assert.deepEqual(told.map(({ method, path, attempt, error }) => [method, path, attempt, error.code]), [1, 2].map((i) => ['GET', `${ROOT}/processes/p1`, i, 'capacity']));
        assert.ok(told.every(({ delayMs }) => delayMs >= 0));
        answers[`GET ${ROOT}/watch`] = busy;
        assert.equal((await errorOf(all(files.watch()))).message, 'enough');
        const nowhere = keyed({ address: '127.0.0.1:9', key: 'x' }, { onRetry: (failed) => { throw failed.error; } });
        for (const iteration of [nowhere.conversation('c1').follow(), nowhere.sandbox('s1').files.watch()])
            assert.equal((await errorOf(all(iteration))).code, 'connection_failed');
    } finally {
        await stub.stop();
    }
});

test('a call without an answer ends in its time, all attempts counted; the bytes of a file have none', async () => {
    const timeoutMs = 50;
    const errors = (signal) => new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)));
    let client;
    // Answers at once, so that its deadline is met on any machine; the rest of the body comes when that of a later call is over.
    const fetch = async (url, { signal }) => {
        if (!url.endsWith('/late')) return errors(signal);
        const late = async (controller) => {
            assert.equal((await errorOf(client.processes.get('p1', { timeoutMs }))).code, 'timeout');
            controller.enqueue(new TextEncoder().encode('b'));
            controller.close();
        };
        const start = (controller) => {
            controller.enqueue(new TextEncoder().encode('a'));
            errors(signal).catch((reason) => controller.error(reason));
            late(controller).catch(() => {});
        };
        return new Response(new ReadableStream({ start }));
    };
    const server = { address: '127.0.0.1:9', key: 'k' };
    client = keyed(server, { fetch }).sandbox('s1');
    const { processes, files } = client;
    for (const call of [
        () => processes.get('p1', { timeoutMs }),
        () => files.copy('a', 'b', { timeoutMs }),
        () => files.write('a', 'x', { timeoutMs }),
        () => files.list('', { timeoutMs }).next(),
    ]) {
        const { code, status } = await errorOf(call());
        assert.ok(code === 'timeout' && status === 0, code);
    }
    const impatient = keyed(server, { fetch, timeoutMs }).sandbox('s1');
    assert.equal((await errorOf(impatient.processes.get('p1'))).code, 'timeout');
    assert.equal((await errorOf(impatient.files.mkdir('a'))).code, 'timeout');
    assert.equal(await impatient.files.readText('late'), 'ab');
    assert.equal(await new Response(await impatient.files.readStream('late')).text(), 'ab');
});

test('an aborted signal ends every kind of call with its reason', async () => {
    const hang = () => new Promise(() => {});
    const silent = ({ response }) => sendFrames(response, [], { end: 'open' });
    const answers = { [`GET ${ROOT}/files/x`]: hang, [`POST ${ROOT}/exec`]: silent, [`GET ${ROOT}/watch`]: silent };
    await withStub({ answers, onSocket() {} }, async (sandbox, stub) => {
        for (const start of [
            (signal) => sandbox.files.read('x', { signal }),
            (signal) => sandbox.exec('true', { signal }),
            (signal) => sandbox.exec.stream('true', { signal }).next(),
            (signal) => sandbox.files.watch({ signal }).next(),
            (signal) => sandbox.processes.attach('p1', { signal }).next(),
        ]) {
            const stop = new AbortController();
            const arrival = stub.nextArrival();
            const pending = errorOf(start(stop.signal));
            await arrival;
            stop.abort(new Error('enough'));
            assert.equal((await pending).message, 'enough', String(start));
            assert.equal((await errorOf(start(stop.signal))).message, 'enough', String(start));
        }
    });
});

test('a stream without heartbeats is given up', async () => {
    const answers = { [`POST ${ROOT}/exec`]: ({ response }) => sendFrames(response, [{ type: 'stdout', data: 'a' }], { end: 'open' }) };
    const stub = await startStub({ answers });
    try {
        const error = await errorOf(all(keyed(stub, { silenceMs: 50 }).sandbox('s1').exec.stream('true')));
        assert.match(error.detail, /silent/);
    } finally {
        await stub.stop();
    }
});

test('long input goes in frames that the server takes, and waits for a connection within a bound', async () => {
    const input = Uint8Array.from({ length: 3 * 1024 * 1024 + 5 }, (_, i) => i % 251);
    const frames = [];
    const onSocket = (socket) => {
        socket.send(JSON.stringify({ type: 'started', pid: 7, after: 0, pty: false }));
        socket.on('message', (data, isBinary) => {
            if (isBinary) frames.push(data);
            else if (String(data) !== 'ping') socket.send(JSON.stringify({ type: 'exit', exitCode: 0, signal: null }));
        });
    };
    await withStub({ onSocket }, async ({ processes }) => {
        const attached = processes.attach('p1');
        assert.throws(() => attached.write(input), { code: 'connection_failed' });
        await all((async function* () {
            for await (const frame of attached) {
                if (frame.type === 'started') attached.write(input);
                if (frame.type === 'started') attached.eof();
                yield frame;
            }
        })());
        assert.ok(frames.every((frame) => frame[0] === 0 && frame.length <= 1024 * 1024 + 1));
        assert.ok(frames.length < 20, `${frames.length} requests`);
        assert.ok(Buffer.concat(frames.map((frame) => frame.subarray(1))).equals(input));
    });
});

test('input that the server refuses ends the attachment and the terminal: nothing goes on behind a hole', async () => {
    const refused = { type: 'rejected', code: 'too_many_requests', detail: 'too often' };
    const onSocket = (socket) => {
        socket.send(JSON.stringify({ type: 'started', pid: 7, after: 0, pty: false }));
        socket.on('message', () => socket.send(JSON.stringify(refused)));
    };
    await withStub({ onSocket, answers: { [`POST ${ROOT}/processes`]: () => ({ processId: 'p1', pid: 7 }) } }, async (sandbox) => {
        const attached = sandbox.processes.attach('p1');
        attached.write('x');
        const error = await errorOf(all(attached));
        assert.deepEqual([error instanceof AtollError, error.code], [true, 'input_refused']);
        assert.throws(() => attached.write('y'), { code: 'process_ended' });
        const terminal = await sandbox.terminal();
        const ended = new Promise((done) => terminal.onExit(done));
        terminal.write('x');
        assert.equal((await ended).error.code, 'input_refused');
        // A refused frame that is no input leaves no hole.
        const other = sandbox.processes.attach('p1');
        other.resize({ cols: 1, rows: 1 });
        assert.deepEqual((await until(other, ({ type }) => type === 'rejected')).at(-1), refused);
    });
});

test('that getToken says signed out ends an attachment, whatever the code', async () => {
    for (const [status, code] of [[401, 'unauthorized'], [401, 'token_expired'], [403, 'capacity'], [404, 'not_found']]) {
        const signedOut = new AtollError({ status, code });
        let asked = 0;
        const getToken = () => (++asked, Promise.reject(signedOut));
        const { processes } = keyed({ address: '127.0.0.1:9', key: 'k' }).sandbox('s1');
        assert.equal(await errorOf(all(processes.attach('p1', { getToken }))), signedOut);
        assert.equal(asked, 1, code);
    }
});

test('a signal that outlives its calls keeps nothing of them', async () => {
    const text = ({ response }) => void response.end('text');
    const answers = { [`GET ${ROOT}/files/a`]: text, [`GET ${ROOT}/archive`]: text, 'GET /v1/conversations/c1/transcript': text };
    const stub = await startStub({ answers });
    try {
        const { signal } = new AbortController();
        const client = keyed(stub);
        const { files } = client.sandbox('s1');
        assert.equal(await files.readText('a', { signal }), 'text');
        assert.equal(await client.conversation('c1').transcript({ signal }), 'text');
        assert.equal(await new Response(await files.readStream('a', { signal })).text(), 'text');
        await (await files.archive({ signal })).cancel();
        assert.equal((await errorOf(files.read('none', { signal }))).code, 'not_found');
        assert.equal((await errorOf(files.readStream('none', { signal }))).code, 'not_found');
        assert.deepEqual(getEventListeners(signal, 'abort'), []);
    } finally {
        await stub.stop();
    }
});

test('a terminal that nobody listens to keeps the end of its output, 1 MiB', async () => {
    const answers = { [`POST ${ROOT}/processes`]: () => ({ processId: 'p1', pid: 7 }) };
    const onSocket = (socket) => {
        for (let i = 0; i < 60; ++i) socket.send(Buffer.concat([bytes(1), Buffer.alloc(50_000, i)]));
        socket.send(JSON.stringify({ type: 'exit', exitCode: 0, signal: null }));
    };
    await withStub({ answers, onSocket }, async (sandbox) => {
        const terminal = await sandbox.terminal();
        await new Promise((done) => terminal.onExit(done));
        const kept = [];
        terminal.onData((data) => kept.push(data));
        assert.deepEqual([kept.length, kept[0][0], kept.at(-1)[0]], [20, 40, 59]);
    });
});
