// Streams as a page sees them with its own EventSource and WebSocket, and the browser recipes of docs/streaming.md.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { recipe } from '../node_support/recipes.mjs';
import { callApi, newPage, startBrowser, startProxy, startServer } from './lab.mjs';

let server;
let browser;
let context;
let page;

before(async () => {
    server = await startServer();
    browser = await startBrowser();
});
after(async () => {
    await browser?.close();
    await server?.stop();
});
beforeEach(async () => {
    context = await browser.newContext();
    page = await newPage(context);
    await page.goto(`http://${server.address}/`);
});
afterEach(async () => {
    assert.deepEqual(page.seen.errors, []);
    await context.close();
});

const call = (...request) => callApi(server, ...request);

async function createConversation(agent = 'teller') {
    const { id } = await call('POST', '/v1/conversations', { agent });
    return { id, path: `/v1/conversations/${id}` };
}

const tokenFor = async ({ path }, ttlSeconds = 300, scope = 'chat') => (await call('POST', `${path}/tokens`, { ttlSeconds, scope })).token;
const say = ({ path }, content) => call('POST', `${path}/messages`, { content });
const logOf = async ({ path }) => (await call('GET', `${path}/events?limit=10000`)).events;

/** Opens an EventSource in the page; `window.seen` tells what came of it. */
const openSource = (target, types = []) =>
    page.evaluate(
        ([address, names]) => {
            const seen = (window.seen = { opens: 0, errors: 0, frames: [], named: [] });
            const source = (window.source = new EventSource(address));
            source.onopen = () => ++seen.opens;
            source.onerror = () => ++seen.errors;
            source.onmessage = ({ data }) => seen.frames.push(JSON.parse(data));
            for (const name of names) source.addEventListener(name, ({ data }) => data !== undefined && seen.named.push(JSON.parse(data)));
        },
        [target, types],
    );

/** Opens a WebSocket in the page; the same, and `seen.close`. */
const openSocket = (target) =>
    page.evaluate((address) => {
        const seen = (window.seen = { opens: 0, frames: [], close: null });
        const socket = (window.socket = new WebSocket(`ws://${window.location.host}${address}`));
        socket.onopen = () => ++seen.opens;
        socket.onmessage = ({ data }) => seen.frames.push(JSON.parse(data));
        socket.onclose = ({ code, reason, wasClean }) => (seen.close = { code, wasClean, reason: reason === '' ? null : JSON.parse(reason) });
    }, target);

const until = (condition, argument) => page.waitForFunction(condition, argument);
const seen = () => page.evaluate(() => window.seen);
const closed = async () => {
    await until(() => window.seen.close !== null);
    return seen();
};

test('onmessage gets every event, and an agent’s error is no error of the connection', async () => {
    const conversation = await createConversation();
    await openSource(`${conversation.path}/events?token=${await tokenFor(conversation)}`, ['error', 'done', 'text_delta']);
    await say(conversation, 'hi');
    await until(() => window.seen.frames.some(({ type }) => type === 'done'));
    const { frames, named, errors, opens } = await seen();
    assert.deepEqual(frames, await logOf(conversation));
    assert.ok(frames.some(({ type }) => type === 'error'));
    assert.deepEqual({ named, errors, opens }, { named: [], errors: 0, opens: 1 });
});

test('with named=1 the listeners of the types get the events', async () => {
    const conversation = await createConversation();
    await say(conversation, 'hi');
    await openSource(`${conversation.path}/events?named=1&token=${await tokenFor(conversation)}`, ['text_delta', 'done']);
    await until(() => window.seen.named.some(({ type }) => type === 'done'));
    const { frames, named } = await seen();
    const log = await logOf(conversation);
    // An event of the type `message` is onmessage's.
    assert.deepEqual(frames, log.filter(({ type }) => type === 'message'));
    assert.deepEqual(named, log.filter(({ type }) => type === 'text_delta' || type === 'done'));
});

test('an EventSource is told the end of its token, and gives up with the old one', async () => {
    const conversation = await createConversation();
    const token = await tokenFor(conversation, 2);
    await openSource(`${conversation.path}/events?token=${token}`);
    await until(() => window.seen.frames.at(-1)?.type === 'stream_closed');
    const [last] = (await seen()).frames.slice(-1);
    assert.equal(last.code, 'token_expired');
    assert.equal(last.after, (await logOf(conversation)).at(-1).seq);
    await until(() => window.source.readyState === EventSource.CLOSED);
    assert.equal((await seen()).opens, 1);
    // Opening with it is a 401 from the beginning.
    await openSource(`${conversation.path}/events?token=${token}`);
    await until(() => window.source.readyState === EventSource.CLOSED);
    assert.deepEqual(await seen(), { opens: 0, errors: 1, frames: [], named: [] });
});

test('a WebSocket with a bad token is opened and closed with the reason', async () => {
    const mine = await createConversation();
    const other = await createConversation();
    const unknown = `/v1/conversations/${'a'.repeat(20)}`;
    const token = await tokenFor(mine);
    for (const [path, given, code, word] of [
        [mine.path, 'v1.no-token', 4401, 'invalid_token'],
        [other.path, token, 4403, 'token_mismatch'],
        [unknown, token, 4403, 'token_mismatch'],
    ]) {
        await openSocket(`${path}/ws?after=5&token=${given}`);
        const { close, opens, frames } = await closed();
        assert.deepEqual({ code: close.code, word: close.reason.code, after: close.reason.after, opens, frames }, { code, word, after: 5, opens: 1, frames: [] });
        assert.equal(close.wasClean, true);
    }
    // Without credentials the handshake is refused, and with a good token it is not.
    await openSocket(`${mine.path}/ws`);
    const refused = await closed();
    assert.deepEqual([refused.close.code, refused.opens], [1006, 0]);
    await openSocket(`${mine.path}/ws?token=${token}`);
    await until(() => window.seen.frames.length > 0);
});

test('a WebSocket is closed with 4401 when its token expires, and with an expired one', async () => {
    const conversation = await createConversation();
    const token = await tokenFor(conversation, 2);
    await openSocket(`${conversation.path}/ws?token=${token}`);
    const { close, frames } = await closed();
    assert.equal(close.code, 4401);
    assert.equal(close.wasClean, true);
    assert.deepEqual([close.reason.code, close.reason.after], ['token_expired', frames.at(-1).seq]);
    assert.deepEqual(frames, await logOf(conversation));
    await openSocket(`${conversation.path}/ws?token=${token}`);
    const late = await closed();
    assert.deepEqual([late.close.code, late.close.reason.code, late.frames.length], [4401, 'token_expired', 0]);
});

test('an id comes back in accepted and rejected', async () => {
    const conversation = await createConversation();
    await openSocket(`${conversation.path}/ws?token=${await tokenFor(conversation)}`);
    await until(() => window.seen.frames.length > 0);
    await page.evaluate(() => {
        for (const frame of [{ type: 'interrupt', id: 1 }, { type: 'message', content: 'hi', id: 'two' }, { type: 'dance', id: 'three' }, { type: 'interrupt' }])
            window.socket.send(JSON.stringify(frame));
    });
    await until(() => window.seen.frames.filter(({ type }) => type === 'rejected').length >= 2 && window.seen.frames.some(({ type }) => type === 'done'));
    const { frames } = await seen();
    const answers = frames.filter(({ seq }) => seq === undefined);
    assert.deepEqual(
        answers.slice(0, 3).map(({ type, id, code }) => ({ type, id, code })),
        [
            { type: 'rejected', id: 1, code: 'no_turn' },
            { type: 'accepted', id: 'two', code: undefined },
            { type: 'rejected', id: 'three', code: 'invalid_field' },
        ],
    );
    const start = frames.find(({ seq, turn }) => seq !== undefined && turn === answers[1].turn);
    assert.equal(start.seq, answers[1].after + 1);
    // Without an id an accepted frame has no answer.
    assert.ok(answers.slice(3).every(({ type, id }) => type === 'rejected' && id === undefined));
});

/** Runs a recipe's function in the page, whose `getToken` gives tokens of `given.ttlSeconds`; `window.ran` tells what came. */
async function run(name, conversation, address, ttlSeconds, after = '0') {
    const given = { tokens: 0, ttlSeconds };
    await page.exposeFunction('getToken', async () => {
        ++given.tokens;
        return tokenFor(conversation, given.ttlSeconds);
    });
    const program = `${recipe(`${name}.js`)}
        window.ran = { events: [], resets: 0, stops: [] };
        window.running = ${name}({
            url: 'http://${address}${conversation.path}',
            getToken: window.getToken,
            after: '${after}',
            onEvent: (event) => window.ran.events.push(event),
            onReset: () => ++window.ran.resets,
            onStop: (code) => window.ran.stops.push(code),
        });`;
    await page.evaluate(program);
    return given;
}

for (const name of ['follow', 'connect']) {
    test(`the recipe ${name}.js loses and doubles nothing over tokens that expire and connections that are cut`, async () => {
        const proxy = await startProxy(server.address);
        try {
            const conversation = await createConversation('shell');
            await page.goto(`http://${proxy.address}/`);
            const given = await run(name, conversation, proxy.address, 2);
            await until(() => window.ran.events.length > 0);
            await page.evaluate(() => window.running.send('while :; do echo line $((++i)); sleep 0.05; done'));
            await until(() => window.ran.events.length > 5);
            assert.ok(proxy.cut() > 0);
            const count = (await page.evaluate(() => window.ran.events)).length;
            await until((before) => window.ran.events.length > before + 5, count);
            const tokensReach = async (wanted) => {
                while (given.tokens < wanted) {
                    const now = (await page.evaluate(() => window.ran.events)).length;
                    await until((before) => window.ran.events.length > before, now);
                }
            };
            await tokensReach(given.tokens + 2);
            given.ttlSeconds = 300;
            await tokensReach(given.tokens + 1);
            // Not an async function: the promise that it gives would count as true before it is settled.
            await until(() => window.running.interrupt() !== false);
            await until(() => window.ran.events.at(-1).type === 'done');
            const ran = await page.evaluate(() => window.ran);
            assert.deepEqual(ran.events, await logOf(conversation));
            assert.deepEqual([ran.resets, ran.stops], [0, []]);
            await call('DELETE', conversation.path);
            await until(() => window.ran.stops.length > 0);
            assert.match((await page.evaluate(() => window.ran.stops)).join(), /^(conversation_ended|not_found)$/);
        } finally {
            await proxy.stop();
        }
    });
}

for (const name of ['follow', 'connect']) {
    test(`the recipe ${name}.js starts over where its place is in another log`, async () => {
        const conversation = await createConversation('shell');
        await page.goto(`http://${server.address}/`);
        await run(name, conversation, server.address, 300, '1-another');
        await say(conversation, 'echo hi');
        await until(() => window.ran.events.at(-1)?.type === 'done');
        const ran = await page.evaluate(() => window.ran);
        assert.deepEqual(ran.events, await logOf(conversation));
        assert.deepEqual([ran.resets, ran.stops], [1, []]);
    });
}

test('the recipe follow.js tells why a message or an interrupt was refused, and a key makes sending again safe', async () => {
    const conversation = await createConversation('shell');
    await run('follow', conversation, server.address, 300);
    const told = await page.evaluate(async () => {
        const { send, interrupt } = window.running;
        const codeOf = (promise) => promise.then(() => 'none', ({ code }) => code);
        return {
            idle: await codeOf(interrupt()),
            empty: await codeOf(send('')),
            first: await send('echo once; sleep 1000', 'k1'),
            again: await send('echo once; sleep 1000', 'k1'),
            busy: await codeOf(send('echo two')),
            stopped: await codeOf(interrupt()),
        };
    });
    await until(() => window.ran.events.at(-1)?.type === 'done');
    assert.deepEqual(told, { ...told, idle: 'no_turn', empty: 'invalid_field', busy: 'turn_in_progress', stopped: 'none' });
    assert.deepEqual([told.first.turn, told.again.turn], ['t1', 't1']);
    const { events } = await page.evaluate(() => window.ran);
    assert.equal(events.filter(({ type }) => type === 'turn_start').length, 1);
    // After it is stopped nothing comes.
    await page.evaluate(() => window.running.stop());
    assert.deepEqual(await page.evaluate(() => window.ran.stops), ['']);
});

test('the recipe connect.js sends a message once, also when the connection breaks before the answer', async () => {
    const proxy = await startProxy(server.address);
    try {
        const conversation = await createConversation('shell');
        await page.goto(`http://${proxy.address}/`);
        await run('connect', conversation, proxy.address, 300);
        await until(() => window.ran.events.length > 0);
        await page.evaluate(() => {
            window.sent = window.running.send('echo once').then((answer) => (window.answer = answer));
        });
        proxy.cut();
        await until(() => window.answer !== undefined);
        await until(() => window.ran.events.at(-1).type === 'done');
        const refused = await page.evaluate(() => window.running.send(' '.repeat(0)).catch(({ code, message }) => ({ code, message })));
        assert.equal(refused.code, 'invalid_field');
        const { answer, ran } = await page.evaluate(() => ({ answer: window.answer, ran: window.ran }));
        assert.deepEqual([answer.type, answer.turn], ['accepted', 't1']);
        assert.deepEqual(ran.events, await logOf(conversation));
        assert.equal(ran.events.filter(({ data }) => data.delta === 'once\n').length, 1);
    } finally {
        await proxy.stop();
    }
});
