// clients/js against the real server: conversations and their events.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Atoll, AtollError } from '../../clients/js/src/index.js';
import { startProxy } from '../node_support/proxy.mjs';
import { startServer } from '../node_support/server.mjs';
import { asBrowser, assertOnce, errorOf, isDone, keyed, linesCommand, outputOf, SOCKETS, tokened, until } from './js_lab.mjs';
import { assertLines, lines, LINES as UNTIL_INTERRUPTED } from './lab.mjs';

const LINES = 60;
const WAYS = [['sse', 'ws'], ...Object.keys(SOCKETS).map((name) => ['websocket', name])];

let server;
const unhandled = [];
before(async () => {
    process.on('unhandledRejection', (error) => unhandled.push(error));
    server = await startServer({ flags: ['--heartbeat', '2', '--egress-allow', '*', '--egress-group', 'npm=registry.example.com'] });
});
after(async () => {
    await server?.stop();
    assert.deepEqual(unhandled, []);
});

const shell = (atoll = keyed(server)) => atoll.conversations.create({ agent: 'shell' });

/** How many streams were asked for through a proxy. */
const streamsOf = ({ up }) => up.match(/GET \/\S+\/(?:events|ws)\?/g)?.length ?? 0;

test('a turn is sent and its events are iterated over until it is done', async () => {
    const conversation = await shell();
    const events = await until(conversation.stream('echo hello'), () => false);
    assert.equal(events[0].type, 'turn_start');
    assert.equal(events.at(-1).type, 'done');
    assert.equal(outputOf(events), 'hello\n');
    assert.equal(new Set(events.map(({ turn }) => turn)).size, 1);
});

test('the network is set as a whole, and told in its normal form', async () => {
    const conversation = await shell();
    assert.equal(conversation.info.network, 'none');
    await conversation.update({ network: { mode: 'egress', allow: ['@npm', 'API.example.com.'] } });
    assert.deepEqual([conversation.info.network.mode, conversation.info.network.allow], ['egress', ['@npm', 'api.example.com']]);
    await conversation.update({ network: { ...conversation.info.network, allow: ['*.example.org:443'] } });
    assert.deepEqual(conversation.info.network.allow, ['*.example.org:443']);
    assert.equal((await errorOf(conversation.update({ network: { mode: 'egress', allow: ['@none'] } }))).code, 'invalid_field');
    assert.deepEqual((await conversation.refresh()).info.network.allow, ['*.example.org:443']);
    await conversation.update({ network: 'none' });
    assert.equal(conversation.info.network, 'none');
});

test('a message that is sent again with its key starts no second turn', async () => {
    const conversation = await shell();
    const ticket = await conversation.send('echo once', { idempotencyKey: 'question-1' });
    await until(conversation.follow({ after: ticket.after }), isDone);
    assert.deepEqual(await conversation.send('echo once', { idempotencyKey: 'question-1' }), ticket);
    assert.equal((await conversation.refresh()).info.openTurn, null);
});

for (const [transport, name] of WAYS) {
    test(`${transport} (${name}): over a connection that is cut again and again each event comes once`, async () => {
        const proxy = await startProxy(server.address);
        try {
            const conversation = await shell();
            const cuttable = keyed(server, { address: proxy.address, WebSocket: SOCKETS[name] }).conversation(conversation.id);
            const waits = [];
            let connections = 0;
            const onStatus = (status, info) => (status === 'live' ? ++connections : waits.push(info));
            let isInterrupted = false;
            await conversation.send(UNTIL_INTERRUPTED);
            const events = await until(cuttable.follow({ transport, onStatus }), isDone, async ({ type }) => {
                if (type !== 'text_delta' || connections !== proxy.cuts() + 1) return;
                if (connections <= 3) assert.ok(proxy.cut() > 0);
                else if (!isInterrupted) {
                    isInterrupted = true;
                    await conversation.interrupt();
                }
            });
            assert.equal(connections, 4);
            assert.equal(waits.length, 3);
            assert.ok(waits.every(({ code }) => code === 'connection_failed'), JSON.stringify(waits));
            assertOnce(events);
            assertLines(outputOf(events));
        } finally {
            await proxy.stop();
        }
    });

    test(`${transport} (${name}): over kill -9 and a new start of the server each event comes once`, async () => {
        const mortal = await startServer();
        try {
            const conversation = await shell(keyed(mortal, { WebSocket: SOCKETS[name] }));
            await conversation.send('echo begun; sleep 1000');
            let restarted = null;
            const events = await until(conversation.follow({ transport }), isDone, async ({ type }) => {
                if (type !== 'text_delta' || restarted !== null) return;
                await mortal.kill();
                restarted = mortal.startAgain();
                restarted.catch(() => {});
            });
            await restarted;
            assertOnce(events);
            assert.equal(events.at(-2).data.code, 'server_restart');
            const again = await until(conversation.stream('echo back'), isDone);
            assert.equal(outputOf(again), 'back\n');
        } finally {
            await mortal.stop();
        }
    });

    test(`${transport} (${name}): a token that expires is renewed, and each event comes once`, async () => {
        const conversation = await shell();
        // Its turn ends only after the second token has expired, too.
        const onAsked = ({ length }) => length === 3 && conversation.interrupt();
        const { atoll, asked } = tokened(server, { ttlSeconds: 1, onAsked, WebSocket: SOCKETS[name] });
        await conversation.send('echo begun; sleep 1000');
        const events = await until(atoll.conversation(conversation.id).follow({ transport }), isDone);
        assertOnce(events);
        assert.ok(asked.length >= 3, `${asked.length} tokens`);
        assert.deepEqual([asked[0].conversationId, asked[0].scope], [conversation.id, 'chat']);
    });

    test(`${transport} (${name}): ending the iteration, and an aborted signal, leave no connection open`, async () => {
        const proxy = await startProxy(server.address);
        try {
            const made = await shell();
            const conversation = keyed(server, { address: proxy.address, WebSocket: SOCKETS[name] }).conversation(made.id);
            const streams = [];
            for (let i = 0; i < 3; ++i) {
                const iteration = conversation.follow({ transport });
                await iteration.next();
                streams.push(iteration);
            }
            // A call of next() waits for an event that does not come.
            const waiting = conversation.follow({ transport, after: (await made.refresh()).info.lastSeq });
            const pending = waiting.next();
            await proxy.until('all streams', (seen) => streamsOf(seen) === 4);
            await Promise.all([...streams, waiting].map((iteration) => iteration.return()));
            assert.deepEqual(await pending, { value: undefined, done: true });
            const stop = new AbortController();
            const aborted = errorOf(until(conversation.follow({ transport, signal: stop.signal }), () => false, () => stop.abort(new Error('enough'))));
            assert.equal((await aborted).message, 'enough');
            // fetch may keep others, without a request.
            await proxy.until('the end of each stream', (seen) => streamsOf(seen) === 5 && seen.closed.length >= 5);
        } finally {
            await proxy.stop();
        }
    });
}

// Eight tokens of a second each, the shortest that there are; of more where the machine is too slow to open a connection with one.
test('a conversation that says nothing is followed over any number of tokens', async () => {
    for (const ttlSeconds of [1, 2, 4, 8]) {
        const made = await shell();
        await until(made.follow(), ({ type }) => type === 'sandbox_ready');
        const onAsked = ({ length }) => length === 8 && made.send('echo late');
        const { atoll } = tokened(server, { ttlSeconds, onAsked });
        const followed = until(atoll.conversation(made.id).follow({ after: (await made.refresh()).info.lastSeq }), isDone);
        const events = await followed.catch((error) => (error.code === 'token_expired' && ttlSeconds < 8 ? null : Promise.reject(error)));
        if (events === null) continue;
        assert.equal(outputOf(events), 'late\n');
        break;
    }
});

test('the server answers probes of both WebSockets, and nobody sees that', async () => {
    const made = await shell();
    const proxy = await startProxy(server.address);
    const answers = (count) => proxy.until('the answer to a probe', ({ down }) => down.split('"invalid_json"').length - 1 === count);
    try {
        const { atoll } = tokened(server, { address: proxy.address });
        const events = await until(atoll.conversation(made.id).follow(), isDone, async ({ type }) => {
            if (type !== 'session_start') return;
            await answers(1);
            await made.send('echo seen');
        });
        assertOnce(events);
        await asBrowser(async (comeOnline) => {
            const { processes } = keyed(server, { address: proxy.address }).sandbox(made.info.sandboxId);
            const attached = processes.attach((await processes.start('read word; echo got $word')).processId);
            const frames = await until(attached, ({ type }) => type === 'exit', async ({ type }) => {
                if (type !== 'started') return;
                comeOnline();
                await answers(2);
                attached.write('it\n');
            });
            assert.deepEqual(frames.map(({ type }) => type), ['started', 'stdout', 'exit']);
        });
    } finally {
        await proxy.stop();
    }
});

test('streams that are ended are gone for the server', async () => {
    const few = await startServer({ flags: ['--log-level', 'warn'] });
    try {
        const conversation = await shell(keyed(few));
        // Far more, one after the other, than a conversation may have at once.
        for (let i = 0; i < 150; ++i) {
            const iteration = conversation.follow({ transport: i % 2 === 0 ? 'sse' : 'websocket' });
            await iteration.next();
            await iteration.return();
        }
        const response = await fetch(`http://${few.address}/metrics`, { headers: { Authorization: `Bearer ${few.key}` } });
        const counts = [...(await response.text()).matchAll(/^atoll_(?:subscribers|streams)\S*? (\d+)$/gm)].map(([, count]) => Number(count));
        assert.ok(counts.length > 0 && counts.every((count) => count < 10), String(counts));
    } finally {
        await few.stop();
    }
});

test('a turn whose stream is cut goes on over another connection', async () => {
    const proxy = await startProxy(server.address);
    try {
        const made = await shell();
        const conversation = keyed(server, { address: proxy.address }).conversation(made.id);
        let isCut = false;
        const events = await until(conversation.stream(linesCommand(LINES)), isDone, ({ type }) => {
            if (type !== 'text_delta' || isCut) return;
            isCut = true;
            assert.ok(proxy.cut() > 0);
        });
        assertOnce(events, events[0].seq);
        assert.equal(outputOf(events), lines(1, LINES));
    } finally {
        await proxy.stop();
    }
});

for (const [name, WebSocket] of [...Object.entries(SOCKETS), ['no WebSocket', null]]) {
    test(`${name}: with a token alone messages and interrupts are posted, with and without a stream that is followed`, async () => {
        const made = await shell();
        const proxy = await startProxy(server.address);
        try {
            const { atoll } = tokened(server, { address: proxy.address, WebSocket });
            const conversation = atoll.conversation(made.id);
            assert.equal((await conversation.send('echo alone')).turn, 't1');
            // Nothing is followed to send.
            assert.equal(streamsOf(proxy.seen), 0);
            await until(made.follow(), isDone);
            assert.equal(outputOf(await until(conversation.stream('echo streamed'), isDone)), 'streamed\n');
            const events = await until(conversation.follow(), ({ type, turn }) => type === 'done' && turn === 't3', async ({ type, turn }) => {
                if (type === 'done' && turn === 't2') assert.equal((await conversation.send('echo begun; sleep 1000')).turn, 't3');
                if (type === 'text_delta' && turn === 't3') await conversation.interrupt();
            });
            assertOnce(events);
            assert.equal((await errorOf(conversation.interrupt())).code, 'no_turn');
        } finally {
            await proxy.stop();
        }
    });
}

test('a message whose connection is cut before the answer is sent again, and starts one turn', async () => {
    const proxy = await startProxy(server.address);
    try {
        const made = await shell();
        for (const [i, atoll] of [keyed(server, { address: proxy.address }), tokened(server, { address: proxy.address }).atoll].entries()) {
            const messages = () => proxy.seen.up.split('/messages').length - 1;
            const before = messages();
            const sent = atoll.conversation(made.id).send('echo once');
            await proxy.until('the message', () => messages() > before);
            assert.ok(proxy.cut() > 0);
            const { turn, after } = await sent;
            assert.deepEqual([turn, messages() - before], [`t${i + 1}`, 2]);
            const all = await until(made.follow({ after }), isDone);
            assert.equal(all.filter(({ type }) => type === 'turn_start').length, 1);
        }
    } finally {
        await proxy.stop();
    }
});

test('a question is answered with the text of its turn and how that ended, over a connection that is cut', async () => {
    const proxy = await startProxy(server.address);
    try {
        const made = await shell();
        const asking = keyed(server, { address: proxy.address }).conversation(made.id);
        let isCut = false;
        const onEvent = ({ type }) => {
            if (type === 'text_delta' && !isCut) isCut = proxy.cut() > 0;
        };
        const options = { idempotencyKey: 'question', onEvent };
        const answer = await asking.ask(`${linesCommand(30)}; exit 3`, options);
        assert.ok(isCut);
        assert.deepEqual(answer, { turn: 't1', text: lines(1, 30), outcome: answer.outcome, exitCode: 3, errors: [], droppedBytes: 0 });
        assert.equal(typeof answer.outcome, 'string');
        // Another process with the same key would get the same answer.
        assert.deepEqual(await tokened(server).atoll.conversation(made.id).ask(`${linesCommand(30)}; exit 3`, { idempotencyKey: 'question' }), answer);
        const stopped = await made.ask('echo begun; sleep 1000', { onEvent: ({ type }) => type === 'text_delta' && made.interrupt() });
        assert.equal(stopped.text, 'begun\n');
        assert.equal((await made.refresh()).info.openTurn, null);
        assert.equal((await errorOf(made.ask('sleep 1000', { signal: AbortSignal.timeout(200) }))).name, 'TimeoutError');
    } finally {
        await proxy.stop();
    }
});

test('an interrupt ends the turn, pause and resume tell the new status', async () => {
    const conversation = await shell();
    const events = await until(conversation.stream('echo begun; sleep 1000'), isDone, ({ type }) => type === 'text_delta' && conversation.interrupt());
    assert.equal(outputOf(events), 'begun\n');
    await conversation.pause();
    assert.deepEqual([conversation.info.status, conversation.info.statusReason], ['paused', 'user']);
    assert.equal((await conversation.resume()).info.status, 'active');
    assert.match(await conversation.transcript(), /echo begun/);
    assert.match(await keyed(server).conversations.transcript(conversation.id, { format: 'jsonl' }), /^\{"role"/);
});

test('the list goes over all pages and filters; an update changes; erasing a user leaves the others', async () => {
    const atoll = keyed(server);
    const make = (userId, i) => atoll.conversations.create({ agent: 'echo', userId, metadata: { ticket: i } });
    const ids = [];
    for (let i = 0; i < 5; ++i) ids.push((await make('alice', i)).id);
    const other = await make('bob', 3);
    const listed = await until(atoll.conversations.list({ userId: 'alice', limit: 2 }), () => false);
    assert.deepEqual(listed.map(({ id }) => id), ids.reverse());
    const found = await until(atoll.conversations.list({ metadata: { ticket: 3 }, createdAfter: new Date(0) }), () => false);
    assert.deepEqual(found.map(({ id }) => id).sort(), [ids[1], other.id].sort());
    const changed = await atoll.conversations.update(other.id, { title: 'Bob’s', metadata: { ticket: null, done: true } });
    assert.deepEqual([changed.info.title, changed.info.metadata], ['Bob’s', { done: true }]);
    assert.deepEqual(await atoll.conversations.eraseUser('alice'), { conversations: 5, sandboxes: 0 });
    assert.deepEqual(await until(atoll.conversations.list({ userId: 'alice' }), () => false), []);
    assert.equal((await atoll.conversations.get(other.id)).id, other.id);
    await other.delete();
    assert.equal((await errorOf(atoll.conversations.get(other.id))).code, 'not_found');
    assert.throws(() => atoll.conversations.eraseUser(''), /user/);
});

test('a secret is put, replaced, listed by its owner and deleted, and its value never comes back', async () => {
    const { secrets } = keyed(server);
    const made = await secrets.put('MODEL_KEY', { value: 'sk-live-42424242', hosts: ['API.example.com'] });
    assert.deepEqual({ ...made, updatedAt: '' }, { name: 'MODEL_KEY', hosts: ['api.example.com'], userId: null, updatedAt: '', usable: true });
    await secrets.put('MODEL_KEY', { value: 'sk-live-43434343', hosts: ['a.example'], userId: 'alice' });
    assert.deepEqual((await secrets.list()).map(({ name, hosts }) => [name, hosts]), [['MODEL_KEY', ['api.example.com']]]);
    assert.deepEqual((await secrets.list({ userId: 'alice' })).map(({ userId }) => userId), ['alice']);
    assert.doesNotMatch(JSON.stringify([made, await secrets.get('MODEL_KEY'), await secrets.list()]), /sk-live/);
    const refused = await errorOf(secrets.put('MODEL_KEY', { value: 'sk-live\n', hosts: ['a.example'] }));
    assert.deepEqual([refused.status, refused.code, refused.pointer], [422, 'invalid_field', '/value']);
    await secrets.delete('MODEL_KEY');
    assert.equal((await errorOf(secrets.get('MODEL_KEY'))).code, 'not_found');
    assert.equal((await secrets.get('MODEL_KEY', { userId: 'alice' })).userId, 'alice');
    await secrets.delete('MODEL_KEY', { userId: 'alice' });
    assert.deepEqual(await secrets.list({ userId: 'alice' }), []);
    await assert.rejects(secrets.get(''), /name/);
});

test('metadata keeps the digits of its integers, both ways', async () => {
    const atoll = keyed(server);
    const metadata = { big: 9007199254740993n, deep: [{ least: -9223372036854775808n, greatest: 18446744073709551615n }], safe: 9007199254740991, text: '9007199254740993' };
    const { id, info } = await atoll.conversations.create({ agent: 'echo', metadata });
    assert.deepEqual(info.metadata, metadata);
    const changed = await atoll.conversations.update(id, { metadata: { ...info.metadata, more: 2n ** 60n } });
    assert.deepEqual(changed.info.metadata, { ...metadata, more: 2n ** 60n });
    const found = await until(atoll.conversations.list({ metadata: { big: metadata.big } }), () => false);
    assert.deepEqual(found.map((each) => each.info.metadata.deep), [metadata.deep]);
});

test('the removal of a conversation ends its iterations', async () => {
    for (const transport of ['sse', 'websocket']) {
        const conversation = await shell();
        const events = await until(conversation.follow({ transport }), () => false, ({ type }) => type === 'sandbox_ready' && conversation.delete());
        assertOnce(events);
    }
});

test('an error has what the server said of it', async () => {
    const atoll = keyed(server);
    const error = await errorOf(atoll.conversations.create({ agent: 'nobody' }));
    assert.ok(error instanceof AtollError);
    assert.deepEqual([error.status, error.code, error.pointer, error.retryAfter], [422, 'unknown_agent', '/agent', null]);
    assert.match(error.requestId, /./);
    assert.match(error.message, /^unknown_agent: /);
    const refused = keyed(server, { apiKey: 'not-the-key-0123456789' }).conversation('a'.repeat(20));
    for (const transport of ['sse', 'websocket']) {
        assert.equal((await errorOf(refused.follow({ transport }).next())).code, 'invalid_key');
        assert.equal((await errorOf(atoll.conversation('a'.repeat(20)).follow({ transport }).next())).code, 'not_found');
    }
    const page = tokened(server).atoll;
    assert.equal((await errorOf(page.conversations.create())).code, 'unauthorized');
    const nowhere = new Atoll({ baseUrl: 'http://127.0.0.1:9', apiKey: 'x', retries: 0 });
    assert.equal((await errorOf(nowhere.system())).code, 'connection_failed');
});

test('a token for reading cannot send; one token without getToken is not renewed', async () => {
    const made = await shell();
    const reader = tokened(server, { scope: 'read' }).atoll.conversation(made.id);
    assert.equal((await errorOf(reader.send('echo no'))).code, 'token_scope');
    assert.equal((await errorOf(reader.interrupt())).code, 'token_scope');
    const { token } = await made.createToken({ ttlSeconds: 1 });
    const once = new Atoll({ baseUrl: `http://${server.address}`, token, WebSocket: SOCKETS.ws });
    assert.equal((await errorOf(until(once.conversation(made.id).follow(), () => false))).code, 'token_expired');
    const failing = new Atoll({ baseUrl: `http://${server.address}`, getToken: () => Promise.reject(new Error('signed out')), WebSocket: SOCKETS.ws });
    const stop = AbortSignal.timeout(1000);
    assert.equal((await errorOf(failing.conversation(made.id).follow({ signal: stop }).next())).name, 'TimeoutError');
});

test('a token of another conversation is said at once', async () => {
    const [one, other] = [await shell(), await shell()];
    const { token } = await other.createToken();
    const confused = new Atoll({ baseUrl: `http://${server.address}`, token, WebSocket: SOCKETS.ws });
    assert.equal((await errorOf(confused.conversation(one.id).follow().next())).code, 'token_mismatch');
});

test('a token of another scope is said at once, over either connection', async () => {
    const one = await shell();
    const { token } = await one.createToken({ scope: 'files' });
    const confused = new Atoll({ baseUrl: `http://${server.address}`, token, WebSocket: SOCKETS.ws });
    for (const transport of ['websocket', 'sse'])
        assert.equal((await errorOf(confused.conversation(one.id).follow({ transport }).next())).code, 'token_scope');
});

test('without a WebSocket the client says which one to give it', async () => {
    const made = await shell();
    const without = keyed(server, { WebSocket: null });
    const error = await errorOf(without.conversation(made.id).follow({ transport: 'websocket' }).next());
    assert.match(error.message, /no WebSocket here.*"ws"/);
    const page = tokened(server, { WebSocket: null }).atoll.conversation(made.id);
    assertOnce(await until(page.follow(), ({ type }) => type === 'sandbox_ready'));
    const events = await until(without.conversation(made.id).follow(), ({ type }) => type === 'sandbox_ready');
    assertOnce(events);
});

test('options that cannot work are refused', () => {
    assert.throws(() => new Atoll({ apiKey: 'x' }), /baseUrl/);
    for (const baseUrl of ['127.0.0.1:4849', 'localhost:4849', 'ftp://a', '', '/atoll'])
        assert.throws(() => new Atoll({ baseUrl, apiKey: 'x' }), { name: 'TypeError', message: /is not the address of a server.*http:\/\/127\.0\.0\.1:4100/ }, baseUrl);
    globalThis.location = { href: 'https://a.example/' };
    try {
        assert.doesNotThrow(() => [new Atoll({ baseUrl: '', apiKey: 'x' }), new Atoll({ baseUrl: '/atoll', apiKey: 'x' })]);
    } finally {
        delete globalThis.location;
    }
    assert.throws(() => new Atoll({ baseUrl: 'http://x' }), /apiKey/);
    assert.throws(() => new Atoll({ baseUrl: 'http://x', apiKey: 'x', token: 'y' }), /either/);
    assert.throws(() => new Atoll({ baseUrl: 'http://x', apiKey: 'x', fetch: null }), /fetch/);
});
