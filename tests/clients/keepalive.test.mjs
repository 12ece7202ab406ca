// Streams on which nothing happens, and servers that end: heartbeats, pings and their answers, last words.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { assertComplete, call, createConversation, startPlace } from './lab.mjs';
import { followEvents } from './event_source.mjs';
import { replaceOnce } from './nginx.mjs';
import { CLIENTS, openStream, ws } from './sockets.mjs';

const PING = '\x89\x00';
// From a client: masked, so four bytes more.
const PONG = '\x8a\x80';
const count = (text, part) => text.split(part).length - 1;

const impatient = (seconds) => (text) => replaceOnce(text, 'proxy_read_timeout 60s;', `proxy_read_timeout ${seconds}s;`);

let place;
before(async () => {
    // nginx closes a connection after four seconds of silence; the server is silent for two at most.
    place = await startPlace({ flags: ['--heartbeat', '2'], edit: impatient(4) });
});
after(() => place?.stop());

test('every client answers pings and stays, directly and through nginx, and a silent one is ended', async () => {
    const direct = await place.direct.withProxy();
    try {
        const routes = [direct.route, place.proxied];
        const idle = await Promise.all(
            CLIENTS.flatMap((client) =>
                routes.map(async (route) => {
                    const conversation = await createConversation(route);
                    return { route, conversation, socket: await openStream(client, route, conversation) };
                }),
            ),
        );
        // The control: it does not answer, and so it does not last.
        const silent = await openStream(ws, place.direct, await createConversation(place.direct), { autoPong: false });
        const wanted = 3 * CLIENTS.length;
        for (const proxy of [direct.proxy, place.behind]) {
            await proxy.until('answers to pings', ({ up, down }) => count(down, PING) >= wanted && count(up, PONG) >= wanted);
        }
        assert.equal((await silent.closed).code, 1006);
        assert.ok(silent.pings >= 1);
        assert.equal(idle.filter(({ socket }) => socket.isClosed).length, 0);
        for (const { route, conversation, socket } of idle) {
            socket.message('echo still there');
            await socket.events.turnEnd();
            await assertComplete(route, conversation, socket.events.list);
            socket.end();
            await socket.closed;
        }
    } finally {
        await direct.proxy.stop();
    }
});

test('an EventSource through nginx is kept open by heartbeats, and without them nginx cuts it', async () => {
    const rare = await startPlace({ edit: impatient(1) });
    const conversations = await Promise.all([place, rare].map((each) => createConversation(each.proxied)));
    const [kept, cut] = [place, rare].map((each, i) => followEvents(each.proxied, conversations[i]));
    try {
        await place.behind.until('heartbeats', ({ down }) => count(down, ': heartbeat\n\n') >= 3);
        await cut.events.until('a second connection', () => cut.opened >= 2);
        assert.equal(kept.opened, 1);
        // Cut or not: nothing is lost or doubled.
        for (const [i, source] of [kept, cut].entries()) {
            const route = [place, rare][i].proxied;
            await call(route, 202, 'POST', `${conversations[i].path}/messages`, { content: 'echo still there' });
            await source.events.turnEnd();
            await assertComplete(route, conversations[i], source.events.list);
        }
    } finally {
        kept.close();
        cut.close();
        await rare.stop();
    }
});

test('a server that ends says 1001 to every WebSocket, and where to go on', async () => {
    const ending = await startPlace();
    try {
        const opened = CLIENTS.flatMap((client) =>
            ending.routes.map(async (route) => {
                const socket = await openStream(client, route, await createConversation(route));
                await socket.events.until('an event', ({ list }) => list.length > 0);
                return socket;
            }),
        );
        const sockets = await Promise.all(opened);
        await ending.server.stop();
        for (const { closed, events } of sockets) {
            const { code, reason } = await closed;
            assert.equal(code, 1001);
            const { logEpoch, ...rest } = JSON.parse(reason);
            assert.match(logEpoch, /^[a-z0-9]{8}$/);
            assert.deepEqual(rest, { code: 'shutting_down', after: events.last });
        }
    } finally {
        await ending.stop();
    }
});

test('who asks for events that the log no longer has is told so with 4410', async () => {
    const forgetful = await startPlace({ flags: ['--turn-log-bytes', '4096', '--conversation-log-bytes', '4096'] });
    try {
        const conversation = await createConversation(forgetful.direct);
        const writer = await openStream(ws, forgetful.direct, conversation);
        for (let turn = 1; turn <= 3; ++turn) {
            writer.message('seq 700');
            await writer.events.turnEnd(turn);
        }
        const { firstSeq } = await call(forgetful.direct, 200, 'GET', conversation.path);
        assert.ok(firstSeq > 2);
        for (const client of CLIENTS) {
            for (const route of forgetful.routes) {
                const socket = await openStream(client, route, conversation, { after: 1 });
                const { code, reason } = await socket.closed;
                assert.equal(code, 4410);
                assert.equal(JSON.parse(reason).code, 'seq_expired');
            }
        }
        writer.end();
        await writer.closed;
    } finally {
        await forgetful.stop();
    }
});
