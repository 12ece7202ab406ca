// Tests with every WebSocket client, directly and through nginx.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { assertComplete, assertLines, call, createConversation, LINES, lines, removeConversation, startPlace, TWO_LINES } from './lab.mjs';
import { CLIENTS, openStream, Refused } from './sockets.mjs';

const MESSAGE_BYTES = 1024 * 1024;

let place;
before(async () => {
    place = await startPlace();
});
after(() => place?.stop());

/** Makes a test for each client and way to the server. */
function each(title, run) {
    for (const client of CLIENTS) {
        for (const [i, way] of ['directly', 'through nginx'].entries()) test(`${client.name}, ${way}: ${title}`, () => run(client, place.routes[i]));
    }
}

async function open(client, route, agent = 'shell') {
    const conversation = await createConversation(route, { agent });
    return { conversation, socket: await openStream(client, route, conversation) };
}

const reason = ({ reason: text }) => JSON.parse(text);

each('a conversation from its first event to the end of its turn, each event once, as it happens', async (client, route) => {
    const { conversation, socket } = await open(client, route);
    socket.message(TWO_LINES);
    await socket.events.text('line 1\n');
    socket.interrupt();
    await socket.events.turnEnd();
    assert.equal(socket.events.output, lines(1, 2));
    await assertComplete(route, conversation, socket.events.list);
    socket.end();
    assert.equal((await socket.closed).code, 1000);
});

each('cut again and again, it goes on after the last event it saw', async (client, route) => {
    const { proxy, route: cuttable } = await route.withProxy();
    try {
        const conversation = await createConversation(route);
        const seen = [];
        let socket = await openStream(client, cuttable, conversation);
        socket.message(LINES);
        for (let cut = 1; cut <= 3; ++cut) {
            await socket.events.text('\n');
            assert.ok(proxy.cut() > 0);
            assert.equal((await socket.closed).code, 1006);
            seen.push(...socket.events.list);
            socket = await openStream(client, cuttable, conversation, { after: seen.at(-1).seq });
        }
        await socket.events.text('\n');
        socket.interrupt();
        await socket.events.turnEnd();
        seen.push(...socket.events.list);
        assertLines(seen.map((event) => event.data.delta ?? '').join(''));
        await assertComplete(route, conversation, seen);
        socket.end();
        await socket.closed;
    } finally {
        await proxy.stop();
    }
});

each('a refused frame and the end of the conversation name their reason', async (client, route) => {
    const { conversation, socket } = await open(client, route);
    socket.send('{"type":"dance"}');
    await socket.events.until('a rejection', () => socket.events.rejected.some((frame) => frame.code === 'invalid_field'));
    socket.interrupt();
    await socket.events.until('a rejection', () => socket.events.rejected.some((frame) => frame.code === 'no_turn'));
    await removeConversation(route, conversation);
    const closed = await socket.closed;
    assert.equal(closed.code, 4404);
    const { logEpoch, ...rest } = reason(closed);
    assert.match(logEpoch, /^[a-z0-9]{8}$/);
    assert.deepEqual(rest, { code: 'conversation_ended', after: socket.events.last });
});

each('an id comes back with the answer to its frame', async (client, route) => {
    const { socket } = await open(client, route);
    const answer = (type, id) => socket.events.until(`${type} ${id}`, ({ answers }) => answers.find((frame) => frame.type === type && frame.id === id));
    socket.send('{"type":"interrupt","id":7}');
    assert.equal((await answer('rejected', 7)).code, 'no_turn');
    const before = socket.events.last;
    socket.send('{"type":"message","content":"echo begun; sleep 1000","id":"m"}');
    const accepted = await answer('accepted', 'm');
    assert.equal(accepted.turn, 't1');
    assert.ok(accepted.after >= before);
    const start = await socket.events.until('the turn', ({ list }) => list.find((event) => event.turn === 't1'));
    assert.equal(start.seq, accepted.after + 1);
    socket.send('{"type":"interrupt","id":8}');
    assert.equal((await answer('accepted', 8)).turn, 't1');
    await socket.events.turnEnd();
    socket.end();
    await socket.closed;
});

each('when its token expires it is closed with 4401, and goes on with a new one', async (client, route) => {
    const conversation = await createConversation(route, { agent: 'echo' });
    const { token } = await call(route, 201, 'POST', `${conversation.path}/tokens`, { ttlSeconds: 2 });
    const socket = await openStream(client, route, { ...conversation, token });
    const closed = await socket.closed;
    assert.equal(closed.code, 4401);
    assert.deepEqual([reason(closed).code, reason(closed).after], ['token_expired', socket.events.last]);
    const late = await client.open(`${route.ws}${conversation.path}/ws?after=0&token=${token}`);
    assert.equal((await late.closed).code, 4401);
    const again = await openStream(client, route, conversation, { after: socket.events.last });
    again.message('hi');
    await again.events.turnEnd();
    await assertComplete(route, conversation, [...socket.events.list, ...again.events.list]);
    again.end();
    await again.closed;
});

each('bytes instead of text close it with 1003', async (client, route) => {
    const { socket } = await open(client, route);
    socket.sendBytes([1, 2, 3]);
    const closed = await socket.closed;
    assert.equal(closed.code, 1003);
    assert.equal(reason(closed).code, 'unsupported_data');
});

each('a turn is interrupted', async (client, route) => {
    const { socket } = await open(client, route);
    socket.message('echo begun; sleep 1000');
    await socket.events.text('begun\n');
    socket.interrupt();
    await socket.events.turnEnd();
    socket.message('echo still there');
    await socket.events.turnEnd(2);
    assert.ok(socket.events.output.endsWith('still there\n'));
    socket.end();
    await socket.closed;
});

each('a message of the greatest size comes back whole, and one byte more closes it with 1009', async (client, route) => {
    const { conversation, socket } = await open(client, route, 'echo');
    const empty = JSON.stringify({ type: 'message', content: '' }).length;
    const content = 'The quick brown fox. '.repeat(MESSAGE_BYTES / 20).slice(0, MESSAGE_BYTES - empty);
    socket.message(content);
    await socket.events.turnEnd();
    assert.equal(socket.events.output.length, content.length);
    assert.ok(socket.events.output === content);
    await assertComplete(route, conversation, socket.events.list);
    if (client.fragments) {
        const text = JSON.stringify({ type: 'message', content });
        socket.sendParts([0, 1, 2, 3].map((i) => text.slice((i * text.length) / 4, ((i + 1) * text.length) / 4)));
        await socket.events.turnEnd(2);
        assert.ok(socket.events.output === content + content);
    }
    socket.message(`${content}.`);
    const closed = await socket.closed;
    assert.equal(closed.code, 1009);
    assert.equal(reason(closed).code, 'message_too_big');
});

each('without a good key or token there is no WebSocket, and no conversation without its own token', async (client, route) => {
    const mine = await createConversation(route, { scope: 'read' });
    const other = await createConversation(route);
    const path = `${route.ws}${mine.path}/ws`;
    const wrong = { headers: { Authorization: 'Bearer not-the-key-0123456789' } };
    const unknown = `${route.ws}/v1/conversations/nosuchconversation/ws`;
    const key = { headers: { 'X-API-Key': route.server.key } };
    const attempts = [
        [401, path],
        [401, `${path}?after=0`],
        [401, path, wrong],
        [client.headers ? 404 : 401, unknown, key],
    ];
    const refuse = async ([status, url, options]) => {
        const refused = await client.open(url, options).catch((error) => error);
        assert.ok(refused instanceof Refused, `opened ${url}`);
        if (client.tellsStatus) assert.equal(refused.status, status);
    };
    await Promise.all(attempts.map(refuse));
    // A page reads no status of a refused handshake: a bad token is told by a close frame.
    const unknownToo = `${route.ws}/v1/conversations/${'a'.repeat(20)}/ws`;
    for (const [code, word, url] of [
        [4401, 'invalid_token', `${path}?after=3&token=v1.not-a-token`],
        [4403, 'token_mismatch', `${path}?after=3&token=${other.token}`],
        [4403, 'token_mismatch', `${unknownToo}?after=3&token=${other.token}`],
    ]) {
        const closed = await (await client.open(url)).closed;
        assert.equal(closed.code, code);
        assert.equal(reason(closed).code, word);
        assert.equal(reason(closed).after, 3);
    }
    // The controls: a key, and the conversation's own token, which is for reading only.
    if (client.headers) {
        const socket = await client.open(path, key);
        socket.end();
        await socket.closed;
    }
    const reader = await openStream(client, route, mine);
    reader.message('echo no');
    await reader.events.until('a rejection', () => reader.events.rejected.some((frame) => frame.code === 'read_only_token'));
    reader.end();
    await reader.closed;
});

each('the subprotocols and extensions that it offers are declined', async (client, route) => {
    const conversation = await createConversation(route);
    // The server knows no subprotocols: RFC 6455 section 4.2.2 lets it choose none.
    const offered = await openStream(client, route, conversation, { protocols: ['chat.example'] }).catch((error) => error);
    if (client.insistsOnProtocol) {
        assert.ok(offered instanceof Refused);
    } else {
        assert.equal(offered.protocol, '');
        offered.end();
        await offered.closed;
    }
    const socket = await openStream(client, route, conversation);
    assert.equal(socket.extensions, '');
    socket.message(`echo ${'much the same '.repeat(500)}`);
    await socket.events.turnEnd();
    assert.ok(socket.events.output.startsWith('much the same much'));
    await assertComplete(route, conversation, socket.events.list);
    socket.end();
    await socket.closed;
});

test('a client behind nginx sees that the connection to the server broke', async () => {
    for (const client of CLIENTS) {
        const { conversation, socket } = await open(client, place.proxied);
        await socket.events.until('an event', () => socket.events.list.length > 0);
        assert.ok(place.behind.cut() > 0);
        assert.equal((await socket.closed).code, 1006);
        const again = await openStream(client, place.proxied, conversation, { after: socket.events.last });
        again.message('echo back');
        await again.events.turnEnd();
        await assertComplete(place.proxied, conversation, [...socket.events.list, ...again.events.list]);
        again.end();
        await again.closed;
    }
});

test('the log that nginx keeps has no token in it', async () => {
    const { conversation, socket } = await open(CLIENTS[0], place.proxied);
    socket.end();
    await socket.closed;
    // Requests are logged in the order of their ends.
    await call(place.proxied, 200, 'GET', '/healthz');
    const log = place.nginx.accessLog();
    assert.ok(log.includes(`"GET ${conversation.path}/ws" 101`), log.slice(-500));
    assert.equal(log.includes(conversation.token), false);
    assert.equal(log.includes('token='), false);
});
