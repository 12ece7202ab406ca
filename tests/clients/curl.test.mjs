// curl: HTTP/1.1 and HTTP/2, bodies of every kind, streams that are cut.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { curl, curlEvents, json } from './curl.mjs';
import { assertComplete, assertLines, createConversation, LINES, lines, startPlace, TWO_LINES } from './lab.mjs';

const BODY_BYTES = 1024 * 1024;

let place;
before(async () => {
    place = await startPlace();
});
after(() => place?.stop());

const WAYS = [
    // --http2 without TLS asks for an upgrade to h2c, which a server may ignore (RFC 9110 section 7.8).
    { name: 'directly', proxied: false, args: [], version: '1.1' },
    { name: 'directly, offering h2c', proxied: false, args: ['--http2'], version: '1.1' },
    { name: 'through nginx, HTTP/1.1', proxied: true, args: ['--http1.1'], version: '1.1' },
    { name: 'through nginx, HTTP/2', proxied: true, args: ['--http2'], version: '2' },
];

function each(title, run, fits = () => true) {
    for (const way of WAYS.filter(fits)) test(`curl, ${way.name}: ${title}`, () => run(way.proxied ? place.proxied : place.direct, way));
}

each('a conversation is made, its turn streamed line by line, and removed', async (route, { args, version }) => {
    const made = await curl(route, '/v1/conversations', [...args, ...json({ agent: 'shell' })]);
    assert.deepEqual([made.code, made.status, made.version], [0, 201, version]);
    const path = `/v1/conversations/${JSON.parse(made.body).id}`;
    const turn = curlEvents(route, `${path}/messages`, [...args, ...json({ content: TWO_LINES })]);
    await turn.events.text('line 1\n');
    const interrupted = await curl(route, `${path}/interrupt`, [...args, '-X', 'POST']);
    assert.equal(interrupted.status, 200);
    assert.equal(await turn.ended, 0);
    assert.equal(turn.events.output, lines(1, 2));
    assert.equal(turn.events.list.at(-1).type, 'done');
    await assertComplete(route, { path }, turn.events.list, turn.events.list[0].seq);
    const removed = await curl(route, path, [...args, '-X', 'DELETE']);
    assert.deepEqual([removed.code, removed.status, removed.body], [0, 204, '']);
});

each('a stream that is cut goes on after Last-Event-ID', async (route, { args }) => {
    const { proxy, route: cuttable } = await route.withProxy();
    try {
        const conversation = await createConversation(route);
        const path = `${conversation.path}/events`;
        const first = curlEvents(cuttable, path, args);
        await first.events.until('the first event', ({ list }) => list.length > 0);
        assert.equal((await curl(route, `${conversation.path}/messages`, json({ content: LINES }))).status, 202);
        await first.events.text('line 2\n');
        assert.ok(proxy.cut() > 0);
        assert.notEqual(await first.ended, 0);
        const { last, list } = first.events;
        const second = curlEvents(cuttable, path, [...args, '-H', `Last-Event-ID: ${last}`]);
        await second.events.text('\n');
        await curl(route, `${conversation.path}/interrupt`, ['-X', 'POST']);
        await second.events.turnEnd();
        second.kill();
        await second.ended;
        assertLines(first.events.output + second.events.output);
        await assertComplete(route, conversation, [...list, ...second.events.list]);
    } finally {
        await proxy.stop();
    }
});

each('a wrong key is told, as problem+json', async (route, { args }) => {
    for (const [key, code] of [['not-the-key-0123456789', 'invalid_key'], [null, 'unauthorized']]) {
        const refused = await curl(route, '/v1/conversations', [...args, '-i'], { key });
        assert.equal(refused.status, 401);
        assert.match(refused.body, /^content-type: application\/problem\+json/im);
        assert.match(refused.body, new RegExp(`"code":"${code}"`));
    }
});

// curl waits for a 100 for as long as it is told to, here for longer than the test may take.
const PATIENT = ['-v', '-H', 'Expect: 100-continue', '--expect100-timeout', '120'];
const isHttp1 = ({ version }) => version === '1.1';

each('a body that waits for 100 Continue is asked for, and one that nobody wants is not', async (route, { args, proxied }) => {
    const { path } = await createConversation(route, { agent: 'echo' });
    const body = json({ content: 'x'.repeat(5000) });
    const taken = await curl(route, `${path}/messages`, [...args, ...PATIENT, ...body]);
    assert.equal(taken.status, 202);
    assert.match(taken.said, /^< HTTP\/1.1 100 Continue/m);
    const refused = await curl(route, `${path}/messages`, [...args, ...PATIENT, ...body], { key: 'not-the-key-0123456789' });
    assert.equal(refused.status, 401);
    // nginx asks for it itself.
    assert.equal(/100 Continue/.test(refused.said), proxied);
}, isHttp1);

each('a chunked body counts as any other', async (route, { args }) => {
    const { path } = await createConversation(route, { agent: 'echo' });
    const content = 'chunk by chunk '.repeat(10_000);
    const chunked = [...args, '-H', 'Transfer-Encoding: chunked', '-H', 'Content-Type: application/json', '-T', '-', '-X', 'POST'];
    const sent = await curl(route, `${path}/messages`, [...chunked, '-H', 'Accept: text/event-stream'], { input: JSON.stringify({ content }) });
    assert.equal(sent.status, 200);
    const text = [...sent.body.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data).data.delta ?? '').join('');
    assert.ok(text === content);
}, isHttp1);

each('a body of the greatest size is taken, and one byte more is refused by the server', async (route, { args }) => {
    const { path } = await createConversation(route, { agent: 'echo' });
    const fill = BODY_BYTES - JSON.stringify({ content: '' }).length;
    const type = ['-H', 'Content-Type: application/json', '--data-binary', '@-'];
    const post = (content) => curl(route, `${path}/messages`, [...args, ...type], { input: JSON.stringify({ content }) });
    assert.equal((await post('x'.repeat(fill))).status, 202);
    const refused = await post('x'.repeat(fill + 1));
    assert.equal(refused.status, 413);
    assert.equal(JSON.parse(refused.body).code, 'body_too_large');
});

each('two hundred requests take one connection', async (route, { args }) => {
    const many = await curl(route, '/healthz?n=[1-200]', args);
    assert.equal(many.code, 0);
    assert.deepEqual([many.statuses.length, new Set(many.statuses), many.connects], [200, new Set([200]), 1]);
});

each('two hundred requests at the same time are all answered', async (route, { args }) => {
    const many = await curl(route, '/v1/conversations?limit=[1-200]', [...args, '-Z', '--parallel-max', '50']);
    assert.equal(many.code, 0);
    assert.deepEqual([many.statuses.length, new Set(many.statuses)], [200, new Set([200])]);
});
