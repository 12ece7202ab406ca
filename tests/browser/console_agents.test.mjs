// The console with a coding agent: cards of tools, thoughts, permissions, the plan, the choice of the agent. The agent is tests/browser/agent/coder.py.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { callApi, createConversation, hold, newPage, output, screenshot, send, signIn, startBrowser, startServer, turnsDone } from './lab.mjs';

const PERMISSION = /\/permissions\/[^/]+$/;
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
        for (const url of page.seen.requests) assert.ok(new RegExp(`^(http|ws)://${server.address}/`).test(url), `left the origin: ${url}`);
        assert.deepEqual(page.seen.errors, []);
        assert.equal(page.seen.dialogs + page.seen.popups, 0);
        assert.deepEqual(await page.evaluate(() => window.violations), []);
    }
    await context.close();
});

async function open(address) {
    const page = await newPage(context);
    pages.push(page);
    await signIn(page, server);
    if (address !== undefined) {
        await page.goto(address);
        await page.waitForSelector('#connection[data-state=live]');
    }
    return page;
}

const asks = (page, count) => page.waitForFunction((wanted) => document.querySelectorAll('#questions-list li').length === wanted, count);
const answer = (page, name) => page.click(`#questions-list button[aria-label^="${name}"]`);

/** The log in the page, with its folded parts and without durations. */
const picture = (page) =>
    page.evaluate(() => {
        const clean = (text) => text.replace(/ · [\d.]+ s$/, '').replace(/^Thought for \d+ s/, 'Thought');
        const shown = (element) => [element.className, element.open ?? null, element.dataset.state ?? null, clean(element.textContent)];
        return [...document.querySelectorAll('#turns :is(.prompt, .text, .thinking, .fold, .plan, .note, .outcome)')].map(shown);
    });

test('a turn of a coding agent is thoughts, cards, a diff, a plan and an answer, live and after a reload', async () => {
    const page = await open();
    await createConversation(page, 'Translate', 'coder');
    await send(page, 'edit');
    await asks(page, 1);
    assert.match(await page.textContent('#questions-list p'), /The agent asks to use edit Edit notes\.txt/);
    assert.match(await page.textContent('#said'), /The agent asks to use edit Edit notes\.txt/);
    // Nothing takes the focus from the field.
    assert.equal(await page.evaluate(() => document.activeElement.id), 'message');
    assert.deepEqual(await page.$$eval('.fold.tool', (all) => all.map((card) => card.dataset.state)), ['done', 'waiting']);
    assert.deepEqual(await page.$$eval('.plan li', (all) => all.map((step) => step.className)), ['done', 'running', 'open']);
    const diff = await page.$$eval('.diff > *', (all) => all.map((line) => [line.tagName, line.textContent]));
    assert.deepEqual(diff, [['SPAN', '  one'], ['DEL', '- two'], ['INS', '+ zwei'], ['SPAN', '  three']]);
    assert.equal(await page.isVisible('.diff'), true);
    await screenshot(page, 'agent-asks');
    const waiting = await picture(page);

    // It waits still after a reload, and looks the same.
    await page.reload();
    await asks(page, 1);
    assert.deepEqual(await picture(page), waiting);
    await page.focus('#message');
    // From the field back, by keyboard alone.
    for (const name of ['Reject', 'Always allow', 'Allow']) {
        await page.keyboard.press('Shift+Tab');
        assert.equal(await page.evaluate(() => document.activeElement.textContent), name);
    }
    await page.keyboard.press('Enter');
    await turnsDone(page, 1);
    await asks(page, 0);
    assert.equal(await page.isHidden('#questions'), true);
    await page.waitForFunction(() => document.activeElement.id === 'message');
    assert.equal(await output(page), 'I change one line.That is all.');
    assert.match(await page.textContent('.thinking'), /^Thought.*I look at the notes, then I translate\.$/);
    const cards = await page.$$eval('.fold.tool', (all) => all.map((card) => [card.dataset.state, card.open, card.textContent]));
    assert.deepEqual(cards.map(([state, isOpen]) => [state, isOpen]), [['done', false], ['done', true]]);
    assert.match(cards[0][2], /^execute cat notes\.txt done.*Result.*one\ntwo/s);
    assert.match(cards[1][2], /Allowed: somebody chose “Allow”\..*Written\./s);
    // The result tells the same change again.
    assert.equal(await page.locator('.diff').count(), 1);
    assert.equal(await page.locator('.plan').count(), 1);
    assert.match(await page.textContent('.plan'), /3 of 3 done/);
    assert.match(await page.textContent('.outcome'), /^done/);
    assert.match(await page.textContent('.fold.message'), /One event as it came.*usage_update/s);
    const over = await picture(page);
    await screenshot(page, 'agent-done');
    await page.reload();
    await turnsDone(page, 1);
    assert.deepEqual(await picture(page), over);
});

test('several permissions wait at once, each is answered by itself, and every tab sees the decision', async () => {
    const page = await open();
    await createConversation(page, 'Both', 'coder');
    const other = await open(page.url());
    await send(page, 'both');
    await Promise.all([asks(page, 2), asks(other, 2)]);
    await page.click('#questions-list li:has-text("b.txt") .reject');
    await Promise.all([asks(page, 1), asks(other, 1)]);
    assert.match(await other.textContent('#questions-list'), /a\.txt/);
    // Files and terminal show them, too.
    await other.click('#files-tab');
    assert.equal(await other.isVisible('#questions'), true);
    await other.click('#questions-list li .quiet');
    assert.equal(await other.isVisible('.fold[data-state=waiting]'), true);
    await other.click('#questions-list li .allow');
    for (const tab of [page, other]) {
        await turnsDone(tab, 1);
        await asks(tab, 0);
        const decided = await tab.$$eval('.fold.tool', (all) => all.map((card) => [card.querySelector('.brief').textContent, card.dataset.state, card.querySelector('.decision').textContent]));
        assert.deepEqual(decided.sort(), [
            ['Edit a.txt', 'done', 'Allowed: somebody chose “Allow”.'],
            ['Edit b.txt', 'failed', 'Refused: somebody chose “Reject”.'],
        ]);
    }
});

test('a click that was meant for a row that has moved decides nothing, and a key does', async () => {
    // The time after a move ends when the test says so.
    await context.addInitScript(() => {
        const set = window.setTimeout.bind(window);
        const held = [];
        window.setTimeout = (act, ms, ...more) => (ms === 500 ? (held.push(act), 0) : set(act, ms, ...more));
        window.settle = () => held.splice(0).forEach((act) => act());
    });
    const page = await open();
    await createConversation(page, 'Moved', 'coder');
    await send(page, 'both');
    await asks(page, 2);
    const row = page.locator('#questions-list li').last();
    const { x, y, width, height } = await row.locator('.allow').first().boundingBox();
    const click = () => page.mouse.click(x + width / 2, y + height / 2);
    const isBusy = () => page.locator('#questions-list [aria-busy=true]').count();
    await click();
    assert.equal(await isBusy(), 0);
    // The other row comes to stand where this one was.
    await row.locator('.reject').press('Enter');
    await asks(page, 1);
    await click();
    assert.equal(await isBusy(), 0);
    await page.evaluate(() => window.settle());
    await click();
    await turnsDone(page, 1);
    await asks(page, 0);
    const decided = await page.$$eval('.decision', (all) => all.map((decision) => decision.textContent));
    assert.deepEqual(decided.sort(), ['Allowed: somebody chose “Allow”.', 'Refused: somebody chose “Reject”.']);
});

test('the focus stays in what is shown, in every view', async () => {
    const page = await open();
    await createConversation(page, 'Focus', 'coder');
    await send(page, 'edit');
    await asks(page, 1);
    await page.click('#files-tab');
    await page.locator('#questions-list .quiet').press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.closest('.fold[data-state=waiting] summary') !== null), true);
    await page.click('#files-tab');
    await page.locator('#questions-list .allow').first().press('Enter');
    await asks(page, 0);
    assert.equal(await page.evaluate(() => document.activeElement.id), 'files-tab');
    await page.click('#chat-tab');
    await turnsDone(page, 1);
});

test('an answer that comes too late, or does not arrive, says so and breaks nothing', async () => {
    const page = await open();
    await createConversation(page, 'Late', 'coder');
    const other = await open(page.url());
    await send(page, 'edit');
    await asks(page, 1);
    const failed = await hold(page, 'POST', PERMISSION, { status: 503, code: 'storage_failed', detail: 'The disk is full.' });
    await answer(page, 'Reject');
    await failed.asked;
    const isBusy = () => page.getAttribute('#questions-list li', 'aria-busy');
    assert.equal(await isBusy(), 'true');
    await failed.answer();
    assert.equal(await page.textContent('#questions-problem'), 'The disk is full.');
    assert.equal(await isBusy(), 'false');
    const late = await hold(page, 'POST', PERMISSION);
    await answer(page, 'Reject');
    await late.asked;
    await asks(other, 1);
    await answer(other, 'Allow (');
    await turnsDone(page, 1);
    await late.answer();
    await page.waitForSelector('#notice:has-text("That was decided already.")');
    assert.equal(await page.isHidden('#questions'), true);
    assert.match(await page.textContent('.decision:not(:empty)'), /Allowed: somebody chose “Allow”/);
});

test('an interrupt takes back what is asked, and ends what runs', async () => {
    const page = await open();
    await createConversation(page, 'Stopped', 'coder');
    await send(page, 'both');
    await asks(page, 2);
    await page.click('#stop');
    await turnsDone(page, 1);
    await asks(page, 0);
    for (const text of await page.$$eval('.decision', (all) => all.map((decision) => decision.textContent))) assert.match(text, /^Cancelled: its turn ended/);
    await send(page, 'wait');
    await page.waitForSelector('.fold[data-state=running]');
    await page.click('#stop');
    await turnsDone(page, 2);
    assert.equal(await page.locator('.fold[data-state=running], .fold[data-state=waiting], summary.running').count(), 0);
    assert.equal(await page.locator('.turn').last().locator('.fold .state').textContent(), 'no result');
    assert.match(await page.locator('.outcome').last().textContent(), /interrupted/);
});

test('what an agent writes into cards, plans and options stays text', async () => {
    const page = await open();
    await createConversation(page, 'Hostile cards', 'coder');
    await send(page, 'hostile');
    await asks(page, 1);
    await screenshot(page, 'agent-hostile-asks');
    // The words of an option may lie: its mark and its description tell what it does.
    assert.deepEqual(await page.$$eval('#questions-list :is(.allow, .reject)', (all) => all.map((one) => [one.className, one.title])), [['allow', 'Allow once'], ['danger reject', 'Reject']]);
    await page.click('#questions-list .reject');
    await turnsDone(page, 1);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.evaluate(() => document.querySelectorAll('#chat :is(#turns, #questions) :is(a, img, script, [style], [onerror], [href])').length), 0);
    const text = await page.textContent('#turns');
    assert.ok(text.includes('<img src=x onerror=window.hacked=1><U+202E>'), text.slice(0, 1000));
    assert.match(text, /A picture, image\/png, 3 bytes: not shown here\./);
    assert.match(text, /A link to javascript:window\.hacked=3/);
    assert.match(text, /\d+ characters more are in the log\./);
    assert.equal(text.includes('\u202e'), false);
    const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= window, `${wide} > ${window}`);
});

test('the agent is chosen among those that are installed, the others say how, and a refusal is told', async () => {
    const page = await open();
    const choose = async () => {
        await page.click('#new');
        return page.$$eval('#create-agent option', (all) => all.map((one) => [one.value, one.disabled, one.selected]));
    };
    const choices = await choose();
    const names = choices.map(([name]) => name);
    assert.deepEqual(choices.at(-1), ['absent', true, false]);
    assert.deepEqual(choices.filter(([, , isSelected]) => isSelected), [['shell', false, true]]);
    await page.click('#create-missing-summary');
    assert.equal(await page.textContent('#create-missing code'), 'scripts/setup --agents absent');
    await page.selectOption('#create-agent', 'coder');
    assert.match(await page.textContent('#create-about'), /^coder: a coding agent/);
    await screenshot(page, 'agent-create');
    const refused = await hold(page, 'POST', /^\/v1\/conversations$/, { status: 422, code: 'unknown_agent', detail: 'It is not installed: run scripts/setup.' });
    await page.click('#create-form button[type=submit]');
    await refused.asked;
    await refused.answer();
    await page.waitForSelector('#create-error:has-text("run scripts/setup")');
    const created = page.waitForRequest((request) => request.method() === 'POST' && request.url().endsWith('/v1/conversations'));
    await page.click('#create-form button[type=submit]');
    // Without a network: the server gives what the agent needs.
    assert.deepEqual((await created).postDataJSON(), { agent: 'coder' });
    await page.waitForSelector('#connection[data-state=live]');
    await page.reload();
    await page.waitForSelector('#connection[data-state=live]');
    assert.deepEqual((await choose()).find(([, , isSelected]) => isSelected), ['coder', false, true]);
    await page.selectOption('#create-agent', 'shell');
    await page.click('#create-form button[type=submit]');
    await page.waitForFunction(() => document.getElementById('create-dialog').open === false);
    assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage)), ['atoll.key']);
    assert.ok(names.includes('teller') && (await callApi(server, 'GET', '/v1/agents')).agents.length === names.length);
});

for (const [name, options] of [
    ['dark', { colorScheme: 'dark', viewport: { width: 1180, height: 780 } }],
    ['phone', { colorScheme: 'light', viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }],
    ['phone-dark', { colorScheme: 'dark', reducedMotion: 'reduce', viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }],
])
    test(`cards and questions fit: ${name}`, async () => {
        await context.close();
        context = await browser.newContext(options);
        const page = await open();
        const fits = async () => {
            const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
            assert.ok(wide <= window, `${wide} > ${window}`);
        };
        await createConversation(page, 'Translate', 'coder');
        await send(page, 'edit');
        await asks(page, 1);
        await fits();
        await screenshot(page, `${name}-agent-asks`);
        await answer(page, 'Allow (');
        await turnsDone(page, 1);
        await asks(page, 0);
        await fits();
        await screenshot(page, `${name}-agent`);
        await page.evaluate(() => (document.getElementById('log').scrollTop = 0));
        await page.waitForSelector('#latest:not([hidden])');
        assert.equal(await page.evaluate(() => innerWidth - document.getElementById('log').getBoundingClientRect().right), 0);
    });
