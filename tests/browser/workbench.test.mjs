// clients/examples/workbench in a real browser: chat, preview, files and terminal, with tokens alone.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startServer } from '../node_support/server.mjs';
import { newPage, screenshot, startBrowser } from './lab.mjs';

// Beside the packages that it needs: see `run`. It is the client of the backend, too.
const { createBackend } = await import(process.env.ATOLL_WORKBENCH);
const { Atoll } = await import(new URL('../../js/src/index.js', `file://${process.env.ATOLL_WORKBENCH}`).href);

const settings = { tokenSeconds: 300 };
let backend;
let server;
let browser;
let page;

before(async () => {
    backend = createBackend(settings);
    await new Promise((done) => backend.listen(0, '127.0.0.1', done));
    server = await startServer({ flags: ['--allowed-origin', `http://127.0.0.1:${backend.address().port}`] });
    settings.atollUrl = `http://${server.address}`;
    settings.atoll = new Atoll({ baseUrl: settings.atollUrl, apiKey: server.key });
    browser = await startBrowser();
    page = await newPage(await browser.newContext({ viewport: { width: 1280, height: 800 } }));
});
after(async () => {
    await browser?.close();
    await server?.stop();
    backend?.closeAllConnections();
    await new Promise((done) => backend.close(done));
});

const textHas = (selector, text) => page.waitForFunction(([where, wanted]) => document.querySelector(where)?.textContent.includes(wanted), [selector, text]);
async function say(text) {
    await page.fill('#message', text);
    await page.press('#message', 'Enter');
}

test('a message makes a file and serves it, and the page shows answer, file and preview; its terminal is in the same sandbox', async () => {
    await page.goto(`http://127.0.0.1:${backend.address().port}/`);
    await textHas('#status', 'live');
    await say('echo "<h1>from inside</h1>" > index.html; echo "<b>made</b>"; (python3 -m http.server 5173 >/dev/null 2>&1 &)');
    await textHas('.turn[data-done] .output', '<b>made</b>\n');
    await textHas('#files', 'index.html');
    await page.click('#files button');
    await textHas('#content', '<h1>from inside</h1>');
    // Previews of a server that is not root need more of the host.
    if (process.getuid() === 0) await page.frameLocator('#preview').locator('h1', { hasText: 'from inside' }).waitFor();
    await page.click('#terminal');
    await page.keyboard.type('echo typed > of-$((6*7)).txt\n');
    await textHas('#files', 'of-42.txt');
    await screenshot(page, 'workbench');
    await page.reload();
    await textHas('.turn[data-done] .output', '<b>made</b>\n');
    assert.deepEqual(page.seen.errors, []);
    assert.equal(await page.evaluate(() => document.querySelectorAll('#turns b').length), 0);
    assert.ok(page.seen.requests.every((url) => !url.includes(server.key)));
});

test('another browser is another user, with a conversation of its own', async () => {
    const session = (asking) => asking.evaluate(async () => (await fetch('/session', { method: 'POST' })).json());
    const other = await newPage(await browser.newContext());
    await other.goto(page.url());
    const [mine, again, theirs] = [await session(page), await session(page), await session(other)];
    assert.equal(mine.conversationId, again.conversationId);
    assert.notEqual(mine.conversationId, theirs.conversationId);
});
