// The console's network: what a sandbox may not reach is refused, shown and allowed. The upstream is a server of this test.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { test } from 'node:test';

import { callApi, createConversation, newPage, output, screenshot, send, signIn, startBrowser, startServer, turnsDone } from './lab.mjs';

// The server makes its listener inside only where it may join the sandbox's net namespace.
const skip = process.getuid() === 0 ? false : 'needs root';
const fetched = (port) => `curl -s -m 20 --noproxy '' -x http://127.0.0.1:3128 http://127.0.0.1:${port}/`;

test('a refused connection is shown, allowed by its button, and passes then', { skip }, async (t) => {
    const upstream = http.createServer((request, response) => response.end('it answers\n')).listen(0, '127.0.0.1');
    t.after(() => upstream.close());
    await once(upstream, 'listening');
    const { port } = upstream.address();
    const server = await startServer({ flags: ['--egress-private', `127.0.0.1/32:${port}`, '--egress-group', 'npm=registry.example.com'] });
    t.after(() => server.stop());
    const browser = await startBrowser();
    t.after(() => browser.close());
    const page = await newPage(await browser.newContext({ viewport: { width: 360, height: 740 } }));
    await signIn(page, server);
    await page.click('#new');
    assert.deepEqual(await page.$$eval('#create-network option', (all) => all.map(({ value }) => value)), ['', 'none', 'egress']);
    assert.equal(await page.isVisible('#create-egress'), false);
    await page.selectOption('#create-network', 'egress');
    await page.check('#create-egress input[value="@npm"]');
    await page.fill('#create-egress textarea', 'api.example.com 192.168.0.1:80');
    await screenshot(page, 'phone-create-egress');
    await page.click('#create-form button[type=submit]');
    // In the server's words, which name the flag.
    await page.waitForSelector('#create-error:not([hidden]):has-text("--egress-private")');
    await page.fill('#create-egress textarea', 'api.example.com');
    await page.click('#create-form button[type=submit]');
    await page.waitForSelector('#connection[data-state=live]');

    await send(page, fetched(port));
    await turnsDone(page, 1);
    await page.waitForSelector(`#denials li:has-text("127.0.0.1:${port}")`);
    assert.match(await page.textContent('.note.warning'), new RegExp(`127\\.0\\.0\\.1 port ${port}`));
    const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= window, `${wide} > ${window}`);
    await screenshot(page, 'phone-denials');
    await page.click(`#denials button[aria-label="Allow 127.0.0.1:${port}"]`);
    await page.waitForSelector('#denials', { state: 'hidden' });
    await send(page, fetched(port));
    await turnsDone(page, 2);
    assert.equal(await output(page), 'it answers\n');

    const id = new URL(page.url()).hash.replace('#c=', '');
    const set = async () => (await callApi(server, 'GET', `/v1/conversations/${id}`)).network;
    assert.deepEqual((await set()).allow, ['@npm', 'api.example.com', `127.0.0.1:${port}`]);
    await page.click('#network');
    assert.equal(await page.isChecked('#network-egress input[value="@npm"]'), true);
    assert.equal(await page.inputValue('#network-egress textarea'), `api.example.com\n127.0.0.1:${port}`);
    await screenshot(page, 'phone-network');
    await page.fill('#network-egress textarea', 'no rule!');
    await page.click('#network-form button[type=submit]');
    await page.waitForSelector('#network-error:not([hidden])');
    await page.fill('#network-egress textarea', 'b.example.com');
    // Meanwhile another client changes it.
    await callApi(server, 'PATCH', `/v1/conversations/${id}`, { network: { mode: 'egress', allow: ['a.example.com'] } });
    await page.click('#network-form button[type=submit]');
    await page.waitForSelector('#network-error:has-text("Somebody else")');
    assert.deepEqual((await set()).allow, ['a.example.com']);
    await page.click('#network-form button[type=submit]');
    await page.waitForSelector('#network-dialog', { state: 'hidden' });
    assert.deepEqual((await set()).allow, ['@npm', 'b.example.com']);
    assert.deepEqual(page.seen.errors, []);
    assert.deepEqual(await page.evaluate(() => window.violations), []);
});

test('a host that is asked for waits for its button', { skip }, async (t) => {
    const upstream = http.createServer((request, response) => response.end('it answers\n')).listen(0, '127.0.0.1');
    t.after(() => upstream.close());
    await once(upstream, 'listening');
    const { port } = upstream.address();
    const server = await startServer({ flags: ['--egress-private', `127.0.0.1/32:${port}`] });
    t.after(() => server.stop());
    const browser = await startBrowser();
    t.after(() => browser.close());
    const page = await newPage(await browser.newContext());
    await signIn(page, server);
    const { id } = await callApi(server, 'POST', '/v1/conversations', { agent: 'shell', network: { mode: 'egress', allow: [], ask: true } });
    await page.goto(`http://${server.address}/#c=${id}`);
    await page.waitForSelector('#connection[data-state=live]');
    await send(page, fetched(port));
    await page.click(`#questions-list button[aria-label="Always allow: 127.0.0.1:${port}"]`);
    await turnsDone(page, 1);
    assert.equal(await output(page), 'it answers\n');
    await page.waitForSelector('#questions', { state: 'hidden' });
    assert.deepEqual((await callApi(server, 'GET', `/v1/conversations/${id}`)).network.allow, [`127.0.0.1:${port}`]);
    assert.deepEqual(page.seen.errors, []);
});

test('a server that allows no other network offers none', async (t) => {
    const server = await startServer();
    t.after(() => server.stop());
    const browser = await startBrowser();
    t.after(() => browser.close());
    const page = await newPage(await browser.newContext());
    await signIn(page, server);
    await createConversation(page, 'No network');
    await page.click('#network');
    await page.waitForSelector('#network-dialog[open]');
    assert.deepEqual(await page.$$eval('#network-mode option', (all) => all.map(({ value }) => value)), ['none']);
    assert.equal(await page.isDisabled('#network-mode'), true);
    assert.equal(await page.isVisible('#network-egress'), false);
});
