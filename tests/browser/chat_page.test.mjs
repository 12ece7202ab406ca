// clients/examples/chat-page in a real browser: page, its backend, and a server that allows the page's origin.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { startServer } from '../node_support/server.mjs';
import { newPage, screenshot, startBrowser, startProxy } from './lab.mjs';

// Beside the packages that it needs: see `run`.
const { createBackend } = await import(process.env.ATOLL_CHAT_PAGE);

const settings = {};
let backend;
let origin;
let server;
let browser;
let context;
let page;

before(async () => {
    backend = createBackend(settings);
    await new Promise((done) => backend.listen(0, '127.0.0.1', done));
    origin = `http://127.0.0.1:${backend.address().port}`;
    server = await startServer({ flags: ['--allowed-origin', origin] });
    browser = await startBrowser();
});
after(async () => {
    await browser?.close();
    await server?.stop();
    backend.closeAllConnections();
    await new Promise((done) => backend.close(done));
});
beforeEach(async () => {
    Object.assign(settings, { atollUrl: `http://${server.address}`, apiKey: server.key, pageAtollUrl: undefined, tokenSeconds: undefined });
    context = await browser.newContext();
    page = await newPage(context);
});
afterEach(async () => {
    assert.deepEqual(page.seen.errors, []);
    assert.deepEqual(await page.evaluate(() => window.violations), []);
    await context.close();
});

async function open(opened = page) {
    await opened.goto(`${origin}/`);
    await opened.waitForFunction(() => document.getElementById('status').textContent === 'live');
}
async function say(text) {
    await page.fill('#message', text);
    await page.press('#message', 'Enter');
}
/** The texts of all outputs, once `count` turns are over. */
async function outputs(count) {
    await page.waitForFunction((wanted) => document.querySelectorAll('.turn[data-done]').length >= wanted, count);
    return page.evaluate(() => [...document.querySelectorAll('.output')].map(({ textContent }) => textContent));
}
const outputHas = (text) => page.waitForFunction((wanted) => document.querySelector('.turn:last-child .output')?.textContent.includes(wanted), text);

test('a chat: question and answer, an interrupt, and all of it once after a reload', async () => {
    await open();
    await say('echo hello; echo "<b>not bold</b>"');
    assert.deepEqual(await outputs(1), ['hello\n<b>not bold</b>\n']);
    await say('echo begun; sleep 1000');
    await outputHas('begun');
    await page.click('#stop');
    const shown = await outputs(2);
    assert.equal(shown[1], 'begun\n');
    await screenshot(page, 'chat-page');
    await page.reload();
    assert.deepEqual(await outputs(2), shown);
    assert.equal(await page.evaluate(() => document.querySelectorAll('b').length), 0);
});

test('over connections that are cut and tokens that expire, the page shows every line once', async () => {
    const proxy = await startProxy(server.address);
    try {
        Object.assign(settings, { pageAtollUrl: `http://${proxy.address}`, tokenSeconds: 1 });
        await open();
        await say('for i in $(seq 150); do echo line $i; sleep 0.02; done');
        for (const line of ['line 10\n', 'line 60\n']) {
            await outputHas(line);
            // It may be between two tokens just now.
            await proxy.until('an open connection', ({ opened, closed }) => opened.length > closed.length);
            assert.ok(proxy.cut() > 0);
        }
        assert.deepEqual(await outputs(1), [Array.from({ length: 150 }, (_, i) => `line ${i + 1}\n`).join('')]);
        assert.ok(page.seen.requests.filter((url) => url.endsWith('/token')).length >= 3);
    } finally {
        await proxy.stop();
    }
});

test('at an address whose origin is not allowed the page stops and names the flag', async () => {
    await page.goto(`${origin.replace('127.0.0.1', 'localhost')}/`);
    await page.waitForFunction(() => document.getElementById('status').textContent.startsWith('origin_not_allowed: '));
    assert.match(await page.textContent('#status'), /--allowed-origin/);
    const asked = page.seen.requests.filter((url) => url.includes('/ws'));
    assert.equal(asked.length, 1);
});

test('the page holds no key, and the backend gives no token for the conversation of another user', async () => {
    await open();
    assert.ok(page.seen.requests.every((url) => !url.includes(server.key)));
    const askFor = (asking, conversationId) =>
        asking.evaluate(async (id) => {
            const headers = { 'Content-Type': 'application/json' };
            const response = await fetch('/token', { method: 'POST', headers, body: JSON.stringify({ conversationId: id }) });
            return { status: response.status, text: await response.text() };
        }, conversationId);
    const mine = page.seen.requests.map((url) => /conversations\/(\w+)\/ws/.exec(url)?.[1]).find((id) => id !== undefined);
    const own = await askFor(page, mine);
    assert.equal(own.status, 200);
    assert.equal(own.text.includes(server.key), false);
    const other = await browser.newContext();
    try {
        const stranger = await newPage(other);
        await open(stranger);
        const theirs = stranger.seen.requests.map((url) => /conversations\/(\w+)\/ws/.exec(url)?.[1]).find((id) => id !== undefined);
        assert.notEqual(theirs, mine);
        assert.equal((await askFor(stranger, theirs)).status, 200);
        assert.equal((await askFor(stranger, mine)).status, 404);
    } finally {
        await other.close();
    }
});
