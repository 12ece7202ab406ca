// The Node and Python programs of docs/streaming.md: every event once, over connections that break and servers that end.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';

import { spawnTied } from '../node_support/child.mjs';
import { recipe } from '../node_support/recipes.mjs';
import { assertComplete, assertLines, call, createConversation, Events, LINES, removeConversation, startPlace } from './lab.mjs';

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
