// All that belongs to one conversation stays with it while people go from one to another: answers that come late, drafts, dialogs.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { callApi, hold, newPage, output, send, signIn, startBrowser, startServer, turnsDone } from './lab.mjs';

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
afterEach(async () => {
    for (const page of pages) {
        assert.deepEqual(page.seen.errors, []);
        assert.equal(page.seen.dialogs, 0);
        assert.deepEqual(await page.evaluate(() => window.violations), []);
    }
    await context.close();
});

const api = (...request) => callApi(server, ...request);

/** A conversation with `run(command)` in its sandbox. */
async function make(title) {
    const { id, sandboxId } = await api('POST', '/v1/conversations', { agent: 'shell', title });
    const run = async (command) => (await api('POST', `/v1/sandboxes/${sandboxId}/exec`, { command })).stdout;
    return { id, sandboxId, title, run, path: `/v1/conversations/${id}` };
}

/** A page that is signed in, and two conversations. */
async function openTwo() {
    const first = await make('The first');
    const second = await make('The second');
    const page = await newPage(context);
    pages.push(page);
    await signIn(page, server);
    return { page, first, second };
}

async function pick(page, { id, title }) {
    await page.click(`#list a[data-id="${id}"]`);
    await page.waitForFunction((wanted) => document.getElementById('title').textContent === wanted, title);
    await page.waitForSelector('#connection[data-state=live]');
}

/** Every text that the element had from now on. */
async function watchText(page, id) {
    await page.evaluate((name) => {
        const element = document.getElementById(name);
        window.texts = [element.textContent];
        new MutationObserver(() => window.texts.push(element.textContent)).observe(element, { childList: true, subtree: true, characterData: true });
    }, id);
    return () => page.evaluate(() => [...new Set(window.texts)]);
}

test('the answer to Resume that comes when another conversation is open changes nothing of that one', async () => {
    const { page, first, second } = await openTwo();
    await second.run('echo b > of-the-second.txt');
    await api('POST', `${first.path}/pause`);
    await pick(page, first);
    await page.waitForFunction(() => document.getElementById('pause').dataset.act === 'resume');
    const held = await hold(page, 'POST', new RegExp(`^${first.path}/resume$`));
    await page.click('#pause');
    await held.asked;
    await pick(page, second);
    await page.waitForSelector('#usage:not([hidden])', { state: 'attached' });
    const titles = await watchText(page, 'title');
    const before = page.seen.requests.length;
    const isUsageOf = ({ sandboxId }) => (url) => url.endsWith(`/v1/sandboxes/${sandboxId}/metrics`);
    await held.answer();
    await page.waitForRequest((request) => isUsageOf(second)(request.url()));
    assert.deepEqual(await titles(), [second.title]);
    assert.equal(page.seen.requests.slice(before).some(isUsageOf(first)), false);
    assert.equal(await page.isDisabled('#pause'), false);
    await page.click('#files-tab');
    await page.locator('#tree [data-path="of-the-second.txt"]').waitFor();
    assert.match(await page.textContent('#facts-list'), new RegExp(second.id));
});

test('a Pause that fails when another conversation is open puts its error nowhere', async () => {
    const { page, first, second } = await openTwo();
    await pick(page, first);
    await page.waitForFunction(() => document.getElementById('status').textContent === 'active');
    const held = await hold(page, 'POST', new RegExp(`^${first.path}/pause$`), { status: 503, code: 'sandbox_failed', detail: 'It cannot be paused.' });
    await page.click('#pause');
    await held.asked;
    await pick(page, second);
    await held.answer();
    assert.equal(await page.isHidden('#send-error'), true);
    assert.equal(await page.textContent('#title'), second.title);
});

const value = (page, id) => page.$eval(`#${id}`, (field) => field.value);
const REFUSED = { status: 409, code: 'turn_running', detail: 'A turn runs.' };

test('what is typed and not sent stays with its conversation', async () => {
    const { page, first, second } = await openTwo();
    await pick(page, first);
    await page.fill('#message', 'echo for the first\n# of two lines');
    await pick(page, second);
    assert.equal(await value(page, 'message'), '');
    await page.press('#message', 'Enter');
    await send(page, 'echo for the second');
    await turnsDone(page, 1);
    assert.deepEqual(await page.$$eval('.prompt', (all) => all.map((prompt) => prompt.textContent)), ['echo for the second']);
    await page.fill('#message', 'more');
    await pick(page, first);
    assert.equal(await value(page, 'message'), 'echo for the first\n# of two lines');
    await page.press('#message', 'Enter');
    await turnsDone(page, 1);
    assert.equal(await output(page), 'for the first\n');
    await pick(page, second);
    assert.equal(await value(page, 'message'), 'more');
    // The next user who signs in does not see it.
    await page.click('#sign-out');
    await page.fill('#key', server.key);
    await page.press('#key', 'Enter');
    await pick(page, second);
    assert.equal(await value(page, 'message'), '');
});

test('a message that fails when another conversation is open comes back to its own', async () => {
    const { page, first, second } = await openTwo();
    const messages = new RegExp(`^${first.path}/messages$`);
    await pick(page, first);
    let held = await hold(page, 'POST', messages, REFUSED);
    await send(page, 'echo for the first');
    await held.asked;
    await pick(page, second);
    await page.fill('#message', 'echo for the second');
    await held.answer();
    await page.waitForFunction(() => /The first.*A turn runs/.test(document.getElementById('notice').textContent));
    assert.equal(await value(page, 'message'), 'echo for the second');
    assert.equal(await page.isHidden('#send-error'), true);

    // The conversation may have been left and opened again.
    await pick(page, first);
    assert.equal(await value(page, 'message'), 'echo for the first');
    held = await hold(page, 'POST', messages, REFUSED);
    await page.press('#message', 'Enter');
    await held.asked;
    await pick(page, second);
    await pick(page, first);
    assert.equal(await value(page, 'message'), '');
    await held.answer();
    await page.waitForFunction(() => document.getElementById('send-error').textContent === 'A turn runs.');
    assert.equal(await value(page, 'message'), 'echo for the first');
    await pick(page, second);
    assert.equal(await value(page, 'message'), 'echo for the second');
    assert.equal(await page.locator('.prompt').count(), 0);
});

test('a file that is renamed when another conversation is open changes nothing of that one', async () => {
    const { page, first, second } = await openTwo();
    await first.run('echo a > of-the-first.txt');
    await second.run('mkdir dir; echo b > of-the-second.txt');
    await pick(page, first);
    await page.click('#files-tab');
    await page.locator('#tree [data-path="of-the-first.txt"]').click();
    await page.waitForFunction(() => document.getElementById('editor-text').value === 'a\n');
    const held = await hold(page, 'POST', new RegExp(`^/v1/sandboxes/${first.sandboxId}/files/of-the-first.txt$`));
    await page.click('#file-rename');
    await page.waitForSelector('#ask-dialog[open]');
    await page.fill('#ask-name', 'renamed.txt');
    await page.click('#ask-submit');
    await held.asked;
    await pick(page, second);
    await page.click('#files-tab');
    await page.locator('#tree [data-path="of-the-second.txt"]').click();
    await page.waitForFunction(() => document.getElementById('editor-text').value === 'b\n');
    await held.answer();
    assert.deepEqual(await page.$$eval('#tree [role=treeitem]', (all) => all.map((item) => item.dataset.path)), ['dir', 'of-the-second.txt']);
    assert.equal(await page.textContent('#editor-name'), 'of-the-second.txt');
    assert.equal(await page.isHidden('#editor-open'), false);
    assert.equal(await first.run('ls'), 'renamed.txt\n');
});

test('a shell that fails to start when another conversation is open leaves the terminal of that one', async () => {
    const { page, first, second } = await openTwo();
    await pick(page, first);
    const held = await hold(page, 'POST', new RegExp(`^/v1/sandboxes/${first.sandboxId}/processes$`), { status: 503, code: 'sandbox_failed', detail: 'No shell.' });
    await page.click('#terminal-tab');
    await held.asked;
    await pick(page, second);
    await page.click('#terminal-tab');
    await page.waitForSelector('#terminal-state[data-state=live]');
    await held.answer();
    assert.equal(await page.getAttribute('#terminal-state', 'data-state'), 'live');
    assert.equal(await page.isHidden('#terminal-note'), true);
    assert.equal(await page.isDisabled('#terminal-end'), false);
});

test('a question about a conversation goes when Back leaves it', async () => {
    const { page, first, second } = await openTwo();
    await pick(page, first);
    await pick(page, second);
    await page.click('#delete');
    await page.waitForSelector('#delete-dialog[open]');
    await page.goBack();
    await page.waitForFunction((wanted) => document.getElementById('title').textContent === wanted, first.title);
    assert.equal(await page.isVisible('#delete-dialog'), false);
    await page.click('#delete');
    await page.click('#delete-form button[type=submit]');
    await page.waitForSelector('#welcome:not([hidden])');
    assert.equal(await page.isVisible('#delete-dialog'), false);
    assert.equal(await page.locator(`#list a[data-id="${first.id}"]`).count(), 0);
    assert.equal((await api('GET', second.path)).status, 'active');
});

test('a conversation whose dialog was closed before it was made is listed and not opened', async () => {
    const { page, first } = await openTwo();
    await pick(page, first);
    const held = await hold(page, 'POST', /^\/v1\/conversations$/);
    await page.click('#new');
    await page.fill('#create-name', 'Made late');
    await page.click('#create-form button[type=submit]');
    await held.asked;
    await page.keyboard.press('Escape');
    await page.waitForSelector('#create-dialog', { state: 'hidden' });
    await held.answer();
    await page.locator('#list a:has-text("Made late")').waitFor();
    assert.equal(await page.textContent('#title'), first.title);
    assert.equal(new URL(page.url()).hash, `#c=${first.id}`);
});

test('people who sign out while another key is tried are signed out', async () => {
    const { page } = await openTwo();
    const held = await hold(page, 'GET', /^\/v1\/system$/);
    await page.evaluate((key) => (location.hash = `#key=${encodeURIComponent(key)}`), server.key);
    await held.asked;
    await page.click('#sign-out');
    await held.answer();
    assert.equal(await page.isVisible('#sign-in'), true);
    assert.equal(await page.isVisible('#app'), false);
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

const row = (page, path) => page.locator(`#tree [role=treeitem][data-path="${path}"]`);
const shows = (page, text) => page.waitForFunction((wanted) => document.getElementById('editor-text').value === wanted, text);

/** The first conversation with two files that were changed in the page and not saved, `src/a.txt` and then `b.txt`. */
async function openEdited() {
    const { page, first, second } = await openTwo();
    await first.run('mkdir src; echo a > src/a.txt; echo b > b.txt');
    await pick(page, first);
    await page.click('#files-tab');
    await row(page, 'src').click();
    for (const [path, before, typed] of [['src/a.txt', 'a\n', 'my a\n'], ['b.txt', 'b\n', 'my b\n']]) {
        await row(page, path).click();
        await shows(page, before);
        await page.fill('#editor-text', typed);
        await row(page, path).locator('.dirty').waitFor();
    }
    return { page, first, second };
}

test('edits that are not saved are there again when their conversation is, with what was changed by others meanwhile', async () => {
    const { page, first, second } = await openEdited();
    await pick(page, second);
    await page.locator(`#list a[data-id="${first.id}"] .dirty`).waitFor();
    await page.click('#files-tab');
    await page.waitForFunction(() => document.getElementById('tree').textContent.includes('The workspace is empty.'));
    assert.equal(await page.isVisible('#editor-open'), false);
    await first.run('echo theirs > b.txt');
    await page.goBack();
    await page.waitForFunction((wanted) => document.getElementById('title').textContent === wanted, first.title);
    assert.equal(await page.locator('#list .dirty').count(), 0);
    await page.click('#files-tab');
    await shows(page, 'my b\n');
    await page.waitForSelector('#editor-conflict:not([hidden])');
    await row(page, 'src/a.txt').locator('.dirty').waitFor();
    await row(page, 'src/a.txt').click();
    await shows(page, 'my a\n');
    await page.click('#editor-save');
    await row(page, 'src/a.txt').locator('.dirty').waitFor({ state: 'detached' });
    assert.equal(await first.run('cat src/a.txt b.txt'), 'my a\ntheirs\n');
});

test('a file that is saved when another conversation is open is no edit any more', async () => {
    const { page, first, second } = await openEdited();
    await page.click('#editor-revert');
    await row(page, 'b.txt').locator('.dirty').waitFor({ state: 'detached' });
    await row(page, 'src/a.txt').click();
    await shows(page, 'my a\n');
    const held = await hold(page, 'PUT', new RegExp(`^/v1/sandboxes/${first.sandboxId}/files/src/a.txt$`));
    await page.click('#editor-save');
    await held.asked;
    await pick(page, second);
    await page.locator(`#list a[data-id="${first.id}"] .dirty`).waitFor();
    await held.answer();
    await page.click('#sign-out');
    await page.waitForSelector('#sign-in:not([hidden])');
});

test('signing out and closing the tab ask first where edits are not saved, also of a conversation that is not open', async () => {
    const { page, first, second } = await openEdited();
    await pick(page, second);
    const asked = page.waitForEvent('dialog');
    await page.close({ runBeforeUnload: true });
    assert.equal((await asked).type(), 'beforeunload');
    assert.equal(page.seen.dialogs, 1);
    page.seen.dialogs = 0;
    await page.click('#sign-out');
    await page.waitForSelector('#ask-dialog[open]');
    await page.click('#ask-form button[value=cancel]');
    await page.waitForSelector('#ask-dialog', { state: 'hidden' });
    assert.equal(await page.textContent('#title'), second.title);
    await pick(page, first);
    await page.click('#files-tab');
    await shows(page, 'my b\n');
    await page.click('#sign-out');
    await page.click('#ask-submit');
    await page.waitForSelector('#sign-in:not([hidden])');
    await page.fill('#key', server.key);
    await page.press('#key', 'Enter');
    await pick(page, first);
    await page.click('#files-tab');
    await row(page, 'b.txt').click();
    await shows(page, 'b\n');
});

test('edits go with the conversation that is deleted', async () => {
    const { page, first } = await openEdited();
    await page.click('#delete');
    await page.click('#delete-form button[type=submit]');
    await page.waitForSelector('#welcome:not([hidden])');
    assert.equal(await page.locator(`#list a[data-id="${first.id}"]`).count(), 0);
    await page.click('#sign-out');
    await page.waitForSelector('#sign-in:not([hidden])');
});
