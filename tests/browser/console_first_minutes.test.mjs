// The first minutes with the console: what it offers, and what it keeps when the server is away.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { callApi, createConversation, hold, newPage, output, screenshot, send, signIn, startBrowser, startServer, turnsDone } from './lab.mjs';

let server;
let browser;
let context;
let pages = [];

before(async () => {
    server = await startServer();
    browser = await startBrowser();
});
after(async () => {
    await browser?.close();
    await server?.stop();
});
beforeEach(async () => {
    context = await browser.newContext({ viewport: { width: 1180, height: 780 } });
    pages = [];
});
// In every test: no request leaves the origin, and no foreign script runs.
afterEach(async () => {
    for (const { page, origin } of pages) {
        for (const url of page.seen.requests) assert.ok(new RegExp(`^(https?|wss?)://${origin}/`).test(url), `left the origin: ${url}`);
        assert.deepEqual(page.seen.errors, []);
        assert.equal(page.seen.dialogs, 0);
        assert.equal(page.seen.popups, 0);
        assert.deepEqual(await page.evaluate(() => window.violations), []);
    }
    await context.close();
});

async function open(address = server.address) {
    const page = await newPage(context);
    pages.push({ page, origin: address });
    await signIn(page, server, address);
    return page;
}

test('a message to a server that is away waits, and is sent once when the server is back', async () => {
    const own = await startServer();
    try {
        const page = await newPage(context);
        pages.push({ page, origin: own.address });
        await signIn(page, own);
        await createConversation(page, 'Away');
        await own.kill();
        await page.waitForSelector('#connection:not([data-state=live])');
        await send(page, 'echo once >> file; cat file');
        await send(page, 'echo twice >> file; cat file');
        await page.locator('#waiting .turn').filter({ hasText: 'Waits for the server.' }).waitFor();
        await screenshot(page, 'waits-for-server');
        assert.equal(await page.inputValue('#message'), '');
        assert.equal(await page.isHidden('#send-error'), true);
        await own.startAgain();
        await turnsDone(page, 2);
        assert.equal(await output(page), 'once\ntwice\n');
        assert.deepEqual(await page.$$eval('.prompt', (all) => all.map((prompt) => prompt.textContent)), ['echo once >> file; cat file', 'echo twice >> file; cat file']);
    } finally {
        await own.stop();
    }
});

test('until the server has answered nothing is said to be missing, and an empty conversation offers a beginning', async () => {
    const page = await open();
    await createConversation(page, 'Empty');
    const held = await hold(page, 'GET', /^\/v1\/conversations$/);
    await page.reload();
    await held.asked;
    assert.equal(await page.textContent('#list-empty'), 'Loading…');
    await held.answer();
    await page.waitForSelector('#list-empty', { state: 'hidden' });
    await page.waitForSelector('#starters:not([hidden])');
    await page.click('#starters button:has-text("Show where I am")');
    await turnsDone(page, 1);
    assert.match(await output(page), /^\/workspace\n/);
    assert.equal(await page.isHidden('#starters'), true);
    await page.reload();
    await turnsDone(page, 1);
    assert.equal(await page.isHidden('#starters'), true);
});

test('a conversation is renamed, taken along as a command and as a transcript, and asked again by the arrow key', async () => {
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    const { id: other } = await callApi(server, 'POST', '/v1/conversations', { agent: 'shell', title: 'Not open' });
    const page = await open();
    await createConversation(page, 'Old name');
    await send(page, 'echo one');
    await turnsDone(page, 1);
    await send(page, "echo it's two'");
    await turnsDone(page, 2);
    const choose = async (id) => {
        await page.click('#menu-button');
        await page.click(`#${id}`);
    };
    await choose('rename');
    await page.fill('#ask-name', 'New name');
    await page.press('#ask-name', 'Enter');
    await page.waitForFunction(() => document.getElementById('title').textContent === 'New name');
    await page.locator('#list [aria-current]').filter({ hasText: 'New name' }).waitFor();
    // Another one is renamed in the list, without being opened.
    const entry = page.locator(`#list li:has(a[data-id="${other}"])`);
    await entry.hover();
    await entry.locator('.rename').click();
    await page.fill('#ask-name', 'By its pencil');
    await page.press('#ask-name', 'Enter');
    await entry.filter({ hasText: 'By its pencil' }).waitFor();
    await entry.locator('a').press('F2');
    await page.fill('#ask-name', 'By its key');
    await page.press('#ask-name', 'Enter');
    await entry.filter({ hasText: 'By its key' }).waitFor();
    assert.equal(await page.textContent('#title'), 'New name');
    await choose('copy-curl');
    await page.locator('#notice').filter({ hasText: 'copied' }).waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(command.includes(`http://${server.address}/v1/conversations/`) && !command.includes(server.key), command);
    const [download] = await Promise.all([page.waitForEvent('download'), choose('save-transcript')]);
    assert.equal(download.suggestedFilename(), 'New-name.md');
    assert.match(readFileSync(await download.path(), 'utf8'), /^# New name[^]*echo one[^]*one\n[^]*exit 0/);

    await page.fill('#message', 'typed');
    await page.press('#message', 'ArrowUp');
    assert.equal(await page.inputValue('#message'), "echo it's two'");
    await page.press('#message', 'ArrowUp');
    assert.equal(await page.inputValue('#message'), 'echo one');
    await page.press('#message', 'ArrowDown');
    await page.press('#message', 'ArrowDown');
    assert.equal(await page.inputValue('#message'), 'typed');
    await page.click('#delete');
    assert.equal(await page.textContent('#delete-title'), 'Delete “New name”?');
});

test('a conversation is made with limits of its own, meets one, and goes on with a higher one', async () => {
    const page = await open();
    await page.click('#new');
    await page.fill('#create-name', 'Small');
    await page.click('#create-limits summary');
    await page.fill('#create-fields label:has-text("Memory") input', 'much');
    await page.press('#create-fields label:has-text("Memory") input', 'Enter');
    await page.locator('#create-error').filter({ hasText: 'Memory, MB: a whole number' }).waitFor();
    await screenshot(page, 'create-limits');
    await page.fill('#create-fields label:has-text("Memory") input', '64');
    await page.fill('#create-fields label:has-text("Pause after") input', '30');
    await page.click('#create-form button[type=submit]');
    await page.waitForSelector('#connection[data-state=live]');
    const id = new URLSearchParams(new URL(page.url()).hash.slice(1)).get('c');
    const made = await callApi(server, 'GET', `/v1/conversations/${id}`);
    assert.deepEqual([made.limits.memoryMb, made.idleSeconds], [64, 1800]);
    await page.click('#starters button:has-text("meet the limit")');
    await page.click('.incident button:has-text("Raise limit")');
    await screenshot(page, 'raise-limit');
    assert.equal(await page.inputValue('#ask-name'), '128');
    await page.press('#ask-name', 'Enter');
    await page.locator('#notice').filter({ hasText: 'The limit is 128 MB' }).waitFor();
    assert.equal((await callApi(server, 'GET', `/v1/conversations/${id}`)).limits.memoryMb, 128);
    // The list is searched by names.
    for (let i = 0; i < 6; ++i) await callApi(server, 'POST', '/v1/conversations', { agent: 'shell', title: `Another ${i}` });
    await page.reload();
    await page.fill('#search', 'another 3');
    await page.waitForFunction(() => document.querySelectorAll('#list a').length === 1);
    await page.fill('#search', '');
    await page.waitForFunction(() => document.querySelectorAll('#list a').length > 6);
});

test('pictures that a turn wrote are shown under it, as images that run nothing', async () => {
    const page = await open();
    await createConversation(page, 'Pictures');
    const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="160" height="90" onload="window.hacked=1"><script>window.hacked=2</script><rect width="160" height="90" fill="teal"/></svg>';
    await send(page, `mkdir -p out; echo '${svg}' > out/chart.svg; echo iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg== | base64 -d > dot.png; echo drawn`);
    await turnsDone(page, 1);
    await page.locator('.turn figure').nth(1).waitFor();
    await send(page, 'echo nothing drawn');
    await turnsDone(page, 2);
    const shown = () => page.$$eval('.turn', (all) => all.map((turn) => [...turn.querySelectorAll('figure')].map(({ dataset }) => dataset.path).sort()));
    assert.deepEqual(await shown(), [['dot.png', 'out/chart.svg'], []]);
    await page.waitForFunction(() => [...document.querySelectorAll('.turn figure img')].every((image) => image.naturalWidth > 0));
    await screenshot(page, 'pictures');
    await page.reload();
    await page.locator('.turn figure').nth(1).waitFor();
    assert.deepEqual(await shown(), [['dot.png', 'out/chart.svg'], []]);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
});

test('a line that is written over is one line, however its pieces arrive', async () => {
    const page = await open();
    await createConversation(page, 'Progress');
    await send(page, "printf 'first\\n\\e[32mat 10 %%\\e[0m'; for i in 20 30 100; do sleep 0.1; printf '\\r\\e[Kat %s %%' $i; done; printf '\\nabc\\b\\bX\\nend\\r\\n'");
    await turnsDone(page, 1);
    assert.equal(await output(page), 'first\nat 100 %\naXc\nend\n');
    // More than the page keeps in one piece, and a line that is too long to be written over.
    await send(page, "python3 -c \"import sys\nfor i in range(3000): sys.stdout.write('\\rstep %d of 3000' % i)\nprint(); print('y' * 50000 + '\\rz')\"");
    await turnsDone(page, 2);
    const text = await output(page);
    assert.ok(text.startsWith('step 2999 of 3000\ny'), text.slice(0, 100));
    assert.ok(text.endsWith('y\nz\n'), text.slice(-20));
    await page.reload();
    await turnsDone(page, 2);
    assert.equal(await output(page), text);
});
