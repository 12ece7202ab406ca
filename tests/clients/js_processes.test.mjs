// clients/js against the real server: commands, the watch, processes and terminals of a sandbox.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startProxy } from '../node_support/proxy.mjs';
import { startServer } from '../node_support/server.mjs';
import { errorOf, keyed, SOCKETS, until } from './js_lab.mjs';
import { lines } from './lab.mjs';

// Node 18 and 20 have none: a client that is given none attaches without.
delete globalThis.WebSocket;
const WAYS = { ...SOCKETS, 'no WebSocket': undefined };

let server;
let sandbox;
before(async () => {
    server = await startServer({ flags: ['--log-level', 'warn'] });
    sandbox = (await keyed(server).conversations.create({ agent: 'shell' })).sandbox;
});
after(() => server?.stop());

const isExit = ({ type }) => type === 'exit';
const textOf = (frames) => frames.map(({ bytes }) => (bytes ? new TextDecoder().decode(bytes) : '')).join('');

test('a command gives its exit and the bytes that it wrote', async () => {
    const done = await sandbox.exec('cat; printf "\\377" >&2; exit 3', { stdin: 'héllo' });
    assert.deepEqual([done.exitCode, done.stdout, [...done.stderrBytes]], [3, 'héllo', [255]]);
    const frames = await until(sandbox.exec.stream(['bash', '-c', 'echo out; echo err >&2']), isExit);
    assert.equal(textOf(frames.filter(({ type }) => type === 'stdout')), 'out\n');
    assert.equal(textOf(frames.filter(({ type }) => type === 'stderr')), 'err\n');
    assert.equal((await errorOf(sandbox.exec('true', { cwd: '/nowhere' }))).status, 422);
});

test('a watch tells what a command changes, over a connection that is cut', async () => {
    const proxy = await startProxy(server.address);
    try {
        const { files } = keyed(server, { address: proxy.address }).sandbox(sandbox.id);
        const has = ({ changes = [] }, path) => changes.some((change) => change.path === path);
        let isCut = false;
        const seen = await until(files.watch(), (event) => has(event, 'second'), async (event) => {
            if (event.type === 'started') await sandbox.exec('mkdir -p d; echo x > d/first');
            if (has(event, 'd/first') && !isCut) {
                isCut = true;
                assert.ok(proxy.cut() > 0);
            }
            if (event.type === 'rescan') await sandbox.exec('echo x > second');
        });
        assert.equal(seen[0].type, 'started');
        assert.equal(seen.filter(({ type }) => type === 'rescan').length, 1);
    } finally {
        await proxy.stop();
    }
});

for (const [name, WebSocket] of Object.entries(WAYS)) {
    test(`${name}: a process is followed over a connection that is cut, with each byte once, and is given input`, async () => {
        const proxy = await startProxy(server.address);
        try {
            const { processes } = keyed(server, { address: proxy.address, WebSocket }).sandbox(sandbox.id);
            const command = 'read word; for i in $(seq 60); do echo line $i; sleep 0.02; done; echo got $word; exit 4';
            const { processId } = await processes.start(command, { tag: name });
            const attached = processes.attach(processId);
            attached.write('hey\n');
            let isCut = false;
            const frames = await until(attached, isExit, ({ type }) => {
                if (type !== 'stdout' || isCut) return;
                isCut = true;
                assert.ok(proxy.cut() > 0);
            });
            assert.equal(textOf(frames), `${lines(1, 60)}got hey\n`);
            assert.equal(frames.at(-1).exitCode, 4);
            assert.equal(attached.after, frames.at(-1).after);
            assert.deepEqual((await processes.list({ tag: name })).map(({ exitCode }) => exitCode), [4]);
            assert.equal((await errorOf(processes.signal(processId, 'SIGTERM'))).code, 'process_ended');
        } finally {
            await proxy.stop();
        }
    });

    test(`${name}: a terminal has its size, takes keys, and hangs up`, async () => {
        const client = keyed(server, { WebSocket }).sandbox(sandbox.id);
        const terminal = await client.terminal({ cols: 100, rows: 30 });
        let text = '';
        let look = () => {};
        terminal.onData((bytes) => {
            text += new TextDecoder().decode(bytes);
            look();
        });
        const shows = (pattern) =>
            new Promise((done) => {
                look = () => pattern.test(text) && done();
                look();
            });
        // A shell may drop what is typed before its prompt.
        await shows(/\$ $/);
        terminal.write('stty size\n');
        await shows(/30 100[^]*\$ $/);
        terminal.resize({ cols: 80, rows: 24 });
        terminal.write('stty size\n');
        await shows(/24 80[^]*\$ $/);
        await terminal.close();
        const [frame] = (await until(client.processes.attach(terminal.processId), isExit)).slice(-1);
        assert.equal(frame.type, 'exit');
    });

    test(`${name}: input of any length reaches a process`, async () => {
        const { processes } = keyed(server, { WebSocket }).sandbox(sandbox.id);
        const { processId } = await processes.start('wc -c');
        const attached = processes.attach(processId);
        const frames = await until(attached, isExit, ({ type }) => {
            if (type !== 'started') return;
            attached.write(new Uint8Array(3_000_000));
            attached.eof();
        });
        assert.equal(textOf(frames), '3000000\n');
    });

    test(`${name}: an attachment to a process that is not there says so, and a frame that changes nothing`, async () => {
        const { processes } = keyed(server, { WebSocket }).sandbox(sandbox.id);
        assert.equal((await errorOf(until(processes.attach('nosuchprocess'), isExit))).status, 404);
        const { processId } = await processes.start('read word');
        const attached = processes.attach(processId);
        attached.resize({ cols: 80, rows: 24 });
        const frames = await until(attached, isExit, ({ type }) => type === 'rejected' && attached.write('go on\n'));
        assert.deepEqual(frames.map(({ type, code }) => code ?? type), ['started', 'invalid_field', 'exit']);
    });
}

test('the output of a process is read page after page', async () => {
    const { processes } = sandbox;
    const { processId } = await processes.start('printf "h\\303\\251\\n"; printf "\\377" >&2; exit 3');
    await until(processes.attach(processId), isExit);
    const page = await processes.output(processId);
    assert.deepEqual([page.after, page.next, page.dropped, page.stdout, [...page.stderrBytes]], [0, 5, 0, 'hé\n', [255]]);
    assert.deepEqual(page.exit, { exitCode: 3, signal: null, timedOut: false });
    const rest = await processes.output(processId, { after: 4 });
    assert.deepEqual([rest.next, rest.stdout.length + rest.stderrBytes.length], [5, 1]);
});
