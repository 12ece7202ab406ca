// EventSource: follows, reconnects by itself with Last-Event-ID, stops where it should.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { assertComplete, assertLines, call, createConversation, LINES, lines, removeConversation, startPlace, TWO_LINES } from './lab.mjs';
import { followEvents, SOURCES } from './event_source.mjs';

// The server's wish (`retry:`), and the clients' own value without it.
const RETRY_MS = 1000;
const USUAL_RETRY_MS = 3000;

let place;
before(async () => {
    place = await startPlace();
});
after(() => place?.stop());

function each(title, run) {
    for (const { name, Source } of SOURCES) {
        for (const [i, way] of ['directly', 'through nginx'].entries()) test(`${name}, ${way}: ${title}`, () => run(Source, place.routes[i], i === 1));
    }
}

const send = (route, conversation, content) => call(route, 202, 'POST', `${conversation.path}/messages`, { content });

each('events arrive as they happen, each once, the id of each is its number and the epoch of the log', async (Source, route) => {
    const conversation = await createConversation(route, { scope: 'read' });
    const follower = followEvents(route, conversation, { Source });
    await send(route, conversation, TWO_LINES);
    await follower.events.text('line 1\n');
    await call(route, 200, 'POST', `${conversation.path}/interrupt`);
    await follower.events.turnEnd();
    assert.equal(follower.events.output, lines(1, 2));
    await assertComplete(route, conversation, follower.events.list);
    const late = followEvents(route, conversation, { Source, after: 2 });
    await late.events.turnEnd();
    await assertComplete(route, conversation, late.events.list, 3);
    follower.close();
    late.close();
});

each('cut in the middle of a turn, it comes back by itself after `retry` and misses nothing', async (Source, route, isProxied) => {
    const { proxy, route: cuttable } = await route.withProxy();
    const conversation = await createConversation(route);
    const follower = followEvents(cuttable, conversation, { Source });
    try {
        await follower.events.until('the first event', ({ list }) => list.length > 0);
        await send(route, conversation, LINES);
        await follower.events.text('line 2\n');
        assert.ok(proxy.cut() > 0);
        const last = follower.events.last;
        await follower.events.until('later events', () => follower.opened === 2 && follower.events.last > last);
        await call(route, 200, 'POST', `${conversation.path}/interrupt`);
        await follower.events.turnEnd();
        assert.equal(follower.opened, 2);
        assertLines(follower.events.output);
        await assertComplete(route, conversation, follower.events.list);
        const waited = proxy.seen.opened[1] - proxy.seen.closed[0];
        assert.ok(waited >= RETRY_MS - 50 && waited < USUAL_RETRY_MS, `came back after ${waited} ms`);
        const asked = isProxied ? place.behind.seen.up : proxy.seen.up;
        assert.ok(new RegExp(`last-event-id: ${last}-[a-z0-9]{8}\r\n`, 'i').test(asked), `never asked for what comes after ${last}`);
    } finally {
        follower.close();
        await proxy.stop();
    }
});

each('a conversation that is removed ends it: it asks once more and gives up', async (Source, route) => {
    const conversation = await createConversation(route);
    const follower = followEvents(route, conversation, { Source });
    await follower.events.until('the first event', ({ list }) => list.length > 0);
    await removeConversation(route, conversation);
    await follower.over();
    assert.deepEqual(follower.closings.map(({ code, after }) => ({ code, after })), [{ code: 'conversation_ended', after: follower.events.last }]);
    assert.equal(follower.opened, 1);
});

each('a token that is not good ends it at once', async (Source, route) => {
    const conversation = await createConversation(route);
    const other = await createConversation(route);
    for (const token of ['v1.not-a-token', other.token]) {
        const follower = followEvents(route, conversation, { Source, token });
        await follower.over();
        assert.equal(follower.opened, 0);
    }
});

each('when its token expires it is told so, and a new token goes on', async (Source, route) => {
    const conversation = await createConversation(route, { agent: 'echo' });
    const { token } = await call(route, 201, 'POST', `${conversation.path}/tokens`, { ttlSeconds: 2 });
    const follower = followEvents(route, conversation, { Source, token });
    await follower.events.until('the end of the token', () => follower.closings.length > 0);
    assert.equal(follower.closings[0].code, 'token_expired');
    assert.equal(follower.closings[0].after, follower.events.last);
    // It comes back by itself with the same address, and gives up at the 401.
    await follower.over();
    assert.equal(follower.opened, 1);
    const again = followEvents(route, conversation, { Source, after: follower.events.last });
    await send(route, conversation, 'hi');
    await again.events.turnEnd();
    await assertComplete(route, conversation, [...follower.events.list, ...again.events.list]);
    again.close();
});

test('an EventSource comes back after nginx lost the server behind it', async () => {
    const conversation = await createConversation(place.proxied);
    const follower = followEvents(place.proxied, conversation);
    await follower.events.until('the first event', ({ list }) => list.length > 0);
    assert.ok(place.behind.cut() > 0);
    await follower.events.until('a second connection', () => follower.opened === 2);
    await send(place.proxied, conversation, 'echo back');
    await follower.events.turnEnd();
    await assertComplete(place.proxied, conversation, follower.events.list);
    follower.close();
});
