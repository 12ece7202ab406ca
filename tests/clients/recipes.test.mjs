// The Node and Python programs of docs/streaming.md: every event once, over connections that break and servers that end. And refusals
// that connect.js, the browser's, hears of; tests/browser has the rest of it.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';

import { spawnTied } from '../node_support/child.mjs';
import { recipe } from '../node_support/recipes.mjs';
import { errorOf, SOCKETS } from './js_lab.mjs';
import { assertComplete, assertLines, call, createConversation, Events, LINES, removeConversation, startPlace } from './lab.mjs';
import { startStub } from './sandbox_stub.mjs';

const PROGRAMS = [
    ['follow.mjs', process.execPath],
    ['follow.py', process.env.ATOLL_PYTHON],
];

let place;
let folder;
before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'atoll-recipes-'));
    for (const [name] of PROGRAMS) writeFileSync(path.join(folder, name), recipe(name));
    place = await startPlace();
});
after(async () => {
    await place?.stop();
    rmSync(folder, { recursive: true, force: true });
});

/** The program, at work on a conversation: `events` as it prints them, `ended` with its status. */
function start([name, command], route, conversation, { key = route.server.key, after = '0' } = {}) {
    const env = { PATH: process.env.PATH, LANG: 'C.UTF-8', ATOLL_URL: route.http, ATOLL_API_KEY: key };
    for (const trusted of ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE']) env[trusted] = process.env.NODE_EXTRA_CA_CERTS;
    const child = spawnTied(command, [path.join(folder, name), conversation.id, after], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const events = new Events();
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (said += text));
    createInterface({ input: child.stdout }).on('line', (line) => events.add(JSON.parse(line)));
    const ended = new Promise((done) => child.once('close', (status) => done({ status, said })));
    return { events, ended, end: () => child.kill() };
}

const send = (route, conversation, content) => call(route, 202, 'POST', `${conversation.path}/messages`, { content });

for (const program of PROGRAMS) {
    for (const way of ['direct', 'proxied']) {
        test(`${program[0]}, ${way}: cut again and again it prints every event once, and ends with the conversation`, async () => {
            const { proxy, route } = await place[way].withProxy();
            const conversation = await createConversation(place[way]);
            const running = start(program, route, conversation);
            try {
                await running.events.until('the first event', ({ list }) => list.length > 0);
                await send(place[way], conversation, LINES);
                for (let cut = 0; cut <= 3; ++cut) {
                    await proxy.until('another connection', ({ opened }) => opened.length > cut);
                    const seen = running.events.last;
                    await running.events.until('more events', ({ last }) => last > seen + 2);
                    if (cut < 3) assert.ok(proxy.cut() > 0);
                }
                await call(place[way], 200, 'POST', `${conversation.path}/interrupt`);
                await running.events.turnEnd();
                assertLines(running.events.output);
                await assertComplete(place[way], conversation, running.events.list);
                await removeConversation(place[way], conversation);
                assert.deepEqual(await running.ended, { status: 0, said: '' });
            } finally {
                running.end();
                await proxy.stop();
            }
        });
    }

    test(`${program[0]}: from a place in another log it prints this one from its beginning`, async () => {
        const conversation = await createConversation(place.direct);
        const running = start(program, place.direct, conversation, { after: '1-another' });
        try {
            await send(place.direct, conversation, 'echo hi');
            await running.events.turnEnd();
            await assertComplete(place.direct, conversation, running.events.list);
        } finally {
            running.end();
        }
    });

    test(`${program[0]}: a wrong key ends it with the reason, an unknown conversation at once`, async () => {
        const conversation = await createConversation(place.direct);
        const refused = await start(program, place.direct, conversation, { key: 'not-the-key-0123456789' }).ended;
        assert.notEqual(refused.status, 0);
        assert.match(refused.said, /invalid_key|401/);
        const unknown = await start(program, place.direct, { id: 'a'.repeat(20) }).ended;
        assert.deepEqual(unknown, { status: 0, said: '' });
    });
}

/** connect.js as a page has it, with what it needs of a browser. */
function connect(options) {
    return new Function('WebSocket', `${recipe('connect.js')}; return connect;`)(SOCKETS.ws)(options);
}

test('connect.js: a message that is too long is refused, and the next one is sent', async () => {
    const conversation = await createConversation(place.direct);
    const events = new Events();
    const running = connect({ url: `${place.direct.http}${conversation.path}`, getToken: () => conversation.token, onEvent: (event) => events.add(event) });
    try {
        await events.until('the first event', ({ list }) => list.length > 0);
        assert.equal((await errorOf(running.send('x'.repeat(1_200_000)))).code, 'message_too_big');
        assert.equal((await running.send('echo hi')).turn, 't1');
        await events.turnEnd();
        await assertComplete(place.direct, conversation, events.list);
    } finally {
        running.stop();
    }
});

test('connect.js: a refusal without an id is of the oldest long message', async () => {
    const onSocket = (socket) =>
        socket.on('message', (data) => {
            const { id, content } = JSON.parse(data);
            if (content.length < 10_000) return;
            socket.send(JSON.stringify({ type: 'rejected', code: 'too_many_requests', detail: 'd' }));
            socket.send(JSON.stringify({ type: 'accepted', id, turn: 't1', after: 0 }));
        });
    const stub = await startStub({ onSocket, answers: { 'GET /v1/conversations/c1/events': () => ({ logEpoch: 'e1', events: [], next: 0 }) } });
    const running = connect({ url: `http://${stub.address}/v1/conversations/c1`, getToken: () => 't', onEvent() {} });
    try {
        const short = errorOf(running.send('short'));
        const first = errorOf(running.send('é'.repeat(10_000)));
        assert.equal((await first).code, 'too_many_requests');
        running.stop();
        assert.equal((await short).code, 'stopped');
    } finally {
        await stub.stop();
    }
});

test('the tutorial shows the workbench as it is', () => {
    const read = (file) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8').replace(/^ +/gm, '');
    const example = ['server.mjs', 'page/page.mjs'].map((file) => read(`clients/examples/workbench/${file}`)).join('\n');
    const blocks = [...read('docs/tutorial.md').matchAll(/^```js\n([^]*?)^```$/gm)];
    assert.ok(blocks.length >= 6, `${blocks.length} blocks`);
    for (const [, block] of blocks) assert.ok(example.includes(block), block);
});
