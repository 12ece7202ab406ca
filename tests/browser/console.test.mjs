// The console as people use it: a real browser against a real server with real sandboxes.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { promisify } from 'node:util';

import { callApi, createConversation, newPage, output, screenshot, send, signIn, startBrowser, startProxy, startServer, turnsDone } from './lab.mjs';

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

// The number of lines that the page showed, each time that it changed.
const watchLines = (page) =>
    page.evaluate(() => {
        window.counts = [];
        const look = () => window.counts.push((document.getElementById('turns').textContent.match(/line \d+\n/g) ?? []).length);
        new MutationObserver(look).observe(document.getElementById('turns'), { childList: true, subtree: true, characterData: true });
    });

/** Sends from `page` a command whose next line comes only after `watched` has shown the one before. */
async function sendLineByLine(page, watched) {
    await send(page, 'for i in 1 2 3; do echo line $i; until [ -e seen$i ]; do sleep 0.05; done; done');
    const id = new URLSearchParams(new URL(page.url()).hash.slice(1)).get('c');
    const { sandboxId } = await callApi(server, 'GET', `/v1/conversations/${id}`);
    for (const count of [1, 2, 3]) {
        await watched.waitForFunction((wanted) => window.counts.includes(wanted), count);
        await callApi(server, 'POST', `/v1/sandboxes/${sandboxId}/exec`, { command: `touch seen${count}` });
    }
}

test('the watch itself sees what must not happen', async () => {
    const page = await open();
    await page.evaluate(() => {
        const script = document.createElement('script');
        script.textContent = 'window.ran = true';
        document.body.append(script);
        const image = document.createElement('img');
        image.src = 'http://127.0.0.2:9/x.png';
        document.body.append(image);
    });
    await page.waitForFunction(() => window.violations.length >= 2);
    assert.equal(await page.evaluate(() => window.ran), undefined);
    assert.ok(page.seen.errors.length > 0);
    pages = [];
});

test('a key in the fragment signs in and leaves the address', async () => {
    // To a pipe the server prints its address without the key; a terminal gets this one.
    assert.equal(server.consoleUrl, `http://${server.address}/`);
    const page = await newPage(context);
    pages.push({ page, origin: server.address });
    await page.goto(`${server.consoleUrl}#key=${encodeURIComponent(server.key)}`);
    await page.waitForSelector('#app:not([hidden])');
    assert.equal(page.url(), `http://${server.address}/`);
    await page.reload();
    await page.waitForSelector('#app:not([hidden])');
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    await page.click('#sign-out');
    await page.waitForSelector('#sign-in:not([hidden])');
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    await page.fill('#key', 'not-the-key-0123456789');
    await page.press('#key', 'Enter');
    await page.waitForSelector('#key-error:not([hidden])');
    await page.fill('#key', server.key);
    await page.press('#key', 'Enter');
    await page.waitForSelector('#app:not([hidden])');
});

test('lines arrive one by one, and a reload comes back to them', async () => {
    const page = await open();
    await createConversation(page, 'Line by line');
    await watchLines(page);
    await sendLineByLine(page, page);
    await turnsDone(page, 1);
    assert.equal(await output(page), 'line 1\nline 2\nline 3\n');
    await page.reload();
    await turnsDone(page, 1);
    assert.equal(await output(page), 'line 1\nline 2\nline 3\n');
    assert.match(await page.textContent('.prompt'), /for i in 1 2 3/);
    assert.equal(await page.textContent('#title'), 'Line by line');
});

// The seq of each element that shows an event, as they stand in the page.
const shownSeqs = (page) => page.$$eval('#turns [data-seq]', (all) => all.map((element) => Number(element.dataset.seq)));

test('another tab sees the questions, stops the turn that is open, and all of it in the order of the log', async () => {
    const page = await open();
    await createConversation(page, 'Two tabs');
    await send(page, 'echo first');
    await turnsDone(page, 1);
    await page.click('#pause');
    await page.waitForFunction(() => document.getElementById('pause').dataset.act === 'resume');
    await send(page, 'echo second; sleep 1000');
    await page.waitForFunction(() => document.getElementById('turns').textContent.includes('second\n'));
    // A tab of its own has nothing in its session storage but the key.
    const other = await open();
    await other.goto(page.url());
    await other.waitForFunction(() => document.getElementById('turns').textContent.includes('second\n'));
    assert.deepEqual(await other.$$eval('.prompt', (all) => all.map((prompt) => prompt.textContent)), ['echo first', 'echo second; sleep 1000']);
    await other.click('#stop');
    for (const tab of [page, other]) {
        await turnsDone(tab, 2);
        await tab.waitForSelector('#stop', { state: 'hidden' });
        const seqs = await shownSeqs(tab);
        assert.ok(seqs.length >= 7, `too few are shown: ${seqs}`);
        assert.deepEqual(seqs, [...new Set(seqs)].sort((a, b) => a - b));
    }
    const before = await shownSeqs(page);
    await page.reload();
    await turnsDone(page, 2);
    assert.deepEqual(await shownSeqs(page), before);
    assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage)), ['atoll.key']);
});

test('an end of the sandbox is one card in its place, live and after a reload', async () => {
    const page = await open();
    await createConversation(page, 'Crash', 'teller');
    await send(page, 'crash');
    await turnsDone(page, 1);
    const paused = () => page.waitForFunction(() => document.querySelector('.incident')?.textContent.includes('is paused'));
    await paused();
    await send(page, 'again');
    await turnsDone(page, 2);
    const before = await shownSeqs(page);
    for (let round = 0; round < 2; ++round) {
        await paused();
        assert.equal(await page.locator('.incident').count(), 1);
        assert.equal(await page.locator('.turn .incident b').textContent(), 'The agent ended unexpectedly.');
        assert.equal(await page.locator('.note.warning').count(), 0);
        const seqs = await shownSeqs(page);
        assert.deepEqual(seqs, [...new Set(seqs)].sort((a, b) => a - b));
        assert.deepEqual(seqs, before);
        await page.reload();
        await turnsDone(page, 2);
    }
});

test('a connection that is cut again and again loses and doubles nothing', async () => {
    const proxy = await startProxy(server.address);
    try {
        const page = await open(proxy.address);
        await createConversation(page);
        await send(page, 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; sleep 0.2; done');
        for (const line of [2, 6, 9]) {
            await page.waitForFunction((wanted) => document.getElementById('turns').textContent.includes(`line ${wanted}\n`), line);
            assert.ok(proxy.cut() > 0);
            await page.waitForSelector('#connection:not([data-state=live])');
            await page.waitForSelector('#connection[data-state=live]');
        }
        await turnsDone(page, 1);
        assert.equal(await output(page), Array.from({ length: 12 }, (_, i) => `line ${i + 1}\n`).join(''));
        assert.equal(proxy.cuts(), 3);
    } finally {
        await proxy.stop();
    }
});

test('a log that a restored backup replaced is shown from its beginning, and nothing stays of the other one', async () => {
    const own = await startServer();
    try {
        const page = await newPage(context);
        pages.push({ page, origin: own.address });
        await signIn(page, own);
        await createConversation(page, 'Restored');
        await send(page, 'echo kept');
        await turnsDone(page, 1);
        const data = path.join(own.folder, 'data');
        const backup = path.join(own.folder, 'backup.db');
        // It would refuse this suite's own variables.
        const env = { PATH: process.env.PATH };
        await promisify(execFile)(path.join(process.env.ATOLL_BIN, 'atolld'), ['backup', backup, '--data-dir', data], { env });
        await send(page, 'echo lost');
        await turnsDone(page, 2);
        await own.kill();
        for (const name of readdirSync(data)) if (name.startsWith('atoll.db')) rmSync(path.join(data, name));
        renameSync(backup, path.join(data, 'atoll.db'));
        await own.startAgain();
        // The page stays as it is: it connects again by itself.
        await page.waitForFunction(() => !document.getElementById('turns').textContent.includes('lost'));
        await turnsDone(page, 1);
        await page.waitForSelector('#connection[data-state=live]');
        await send(page, 'echo new');
        await turnsDone(page, 2);
        const prompts = () => page.$$eval('.prompt', (all) => all.map((prompt) => prompt.textContent));
        assert.deepEqual(await prompts(), ['echo kept', 'echo new']);
        assert.equal(await output(page), 'new\n');
        const seqs = await shownSeqs(page);
        assert.deepEqual(seqs, [...new Set(seqs)].sort((a, b) => a - b));
        await page.reload();
        await turnsDone(page, 2);
        assert.deepEqual(await shownSeqs(page), seqs);
        assert.deepEqual(await prompts(), ['echo kept', 'echo new']);
    } finally {
        await own.stop();
    }
});

test('events come by WebSocket where the server has tokens, and otherwise where none gets through', async () => {
    const page = await open();
    await page.route('**/tokens', (route) => route.fulfill({ status: 201, contentType: 'application/json', body: '{"token":"t","expiresAt":"x"}' }));
    // A token that the server did not make: it refuses the WebSocket.
    await createConversation(page);
    assert.equal(await page.textContent('#connection'), 'live');
    await send(page, 'echo over events');
    await turnsDone(page, 1);
    assert.equal(await output(page), 'over events\n');
    await page.routeWebSocket(/\/ws\?after=0&token=t$/, (socket) => {
        const at = '2026-01-01T00:00:00.000Z';
        socket.send(JSON.stringify({ seq: 1, type: 'text_delta', at, turn: 't1', data: { delta: 'over a WebSocket' } }));
        socket.send(JSON.stringify({ seq: 2, type: 'done', at, turn: 't1', data: {} }));
    });
    await page.reload();
    await turnsDone(page, 1);
    assert.equal(await page.textContent('#connection'), 'live · WebSocket');
    assert.equal(await output(page), 'over a WebSocket');
});

test('two tabs see the same', async () => {
    const first = await open();
    await createConversation(first);
    const second = await open();
    await second.goto(first.url());
    await second.waitForSelector('#connection[data-state=live]');
    await watchLines(second);
    await sendLineByLine(first, second);
    await Promise.all([turnsDone(first, 1), turnsDone(second, 1)]);
    assert.equal(await output(first), 'line 1\nline 2\nline 3\n');
    assert.equal(await output(second), await output(first));
});

test('a turn is stopped by the button, and by Esc pressed twice', async () => {
    const page = await open();
    await createConversation(page);
    await send(page, 'echo begun; sleep 1000');
    await page.waitForSelector('#stop:not([hidden])');
    await page.waitForFunction(() => document.getElementById('turns').textContent.includes('begun\n'));
    // A message that is sent meanwhile waits, can be taken back, and is sent after it.
    await send(page, 'echo not yet');
    await page.locator('#waiting .turn').filter({ hasText: 'Waits until the turn' }).waitFor();
    await screenshot(page, 'waits-for-turn');
    await page.click('#waiting button');
    assert.equal(await page.locator('#waiting .turn').count(), 0);
    assert.equal(await page.inputValue('#message'), 'echo not yet');
    await page.press('#message', 'Enter');
    await page.locator('#waiting .turn').filter({ hasText: 'Waits until the turn' }).waitFor();
    await page.click('#stop');
    await turnsDone(page, 2);
    assert.equal(await output(page), 'not yet\n');
    assert.equal(await page.locator('#waiting .turn').count(), 0);
    assert.equal(await page.isHidden('#stop'), true);
    await send(page, 'echo again; sleep 1000');
    await page.waitForFunction(() => document.getElementById('turns').textContent.includes('again\n'));
    await page.press('#message', 'Escape');
    assert.match(await page.textContent('#keys'), /Esc again/);
    assert.equal(await page.isVisible('#stop'), true);
    await page.press('#message', 'Escape');
    await turnsDone(page, 3);
    await send(page, 'echo still there');
    await turnsDone(page, 4);
    assert.equal(await output(page), 'still there\n');
});

test('hostile output stays text', async () => {
    const page = await open();
    await createConversation(page, 'Hostile');
    const title = await page.title();
    const hostile = [
        '<script>window.hacked=1</script>', '<img src=x onerror="window.hacked=2">', '<svg onload="alert(1)">', '</div><h1 id=planted>x</h1>',
        '<a href="javascript:alert(1)">click</a>', 'javascript:alert(1)', '<style>*{display:none}</style>', '<iframe src="http://127.0.0.2:9/"></iframe>',
    ];
    await send(page, `cat <<'END'\n${hostile.join('\n')}\nEND\nprintf '\\e]0;stolen title\\a\\e[2J\\e[H\\e]8;;javascript:alert(1)\\e\\\\link\\e]8;;\\e\\\\\\u202eabc\\a\\e[31mred\\e[0m\\n'`);
    await turnsDone(page, 1);
    const text = await output(page);
    for (const line of hostile) assert.ok(text.includes(line), line);
    assert.ok(text.endsWith('link<U+202E>abc^Gred\n'), text);
    assert.equal(await page.title(), title);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.deepEqual(
        await page.evaluate(() => [...new Set([...document.querySelectorAll('.answer *')].map((element) => element.tagName))].sort()),
        ['DIV', 'SPAN'],
    );
    assert.equal(await page.evaluate(() => document.querySelectorAll('#planted, #turns a, #turns img, #turns script').length), 0);
    assert.equal(await page.evaluate(() => document.querySelectorAll('#turns [style], #turns [onerror], #turns [href]').length), 0);
    assert.equal(await page.evaluate(() => document.querySelector('.answer .a-f1').textContent), 'red');
    assert.equal(await page.isVisible('#message'), true);
    await screenshot(page, 'hostile');
});

test('a long output keeps the page bounded and its end in view', async () => {
    const page = await open();
    // A look takes as long as the text is long: one a frame leaves the page no time of its own.
    const rarely = { timeout: 120_000, polling: 1000 };
    await createConversation(page);
    await send(page, 'seq 1 900000; echo the end');
    await page.waitForFunction(() => document.getElementById('turns').textContent.endsWith('the end\n') || document.querySelector('.turn[data-over="1"]'), null, rarely);
    await turnsDone(page, 1);
    const { size, nodes } = await page.evaluate(() => ({
        size: document.getElementById('turns').textContent.length,
        nodes: document.getElementById('turns').querySelectorAll('*').length,
    }));
    assert.ok(size < 4 * 1024 * 1024 && size > 1024 * 1024, `${size} characters`);
    assert.ok(nodes < 20_000, `${nodes} elements`);
    assert.match(await output(page), /899999\n900000\nthe end\n$/);
    assert.equal(await page.isVisible('#folded'), true);
    // Each character a style of its own: elements are bounded too.
    await send(page, "for i in $(seq 1 400); do for j in $(seq 1 200); do printf '\\e[31mx\\e[32my'; done; done; echo; echo the end");
    const over = () => {
        const last = [...document.querySelectorAll('.turn')].at(-1);
        return last.dataset.over === '1' && last.textContent.includes('\nthe end\n') && last.querySelector('.a-f2') !== null;
    };
    await page.waitForFunction(over, null, rarely);
    assert.ok((await page.evaluate(() => document.querySelectorAll('#turns *').length)) < 60_000);
});

test('every kind of event of an agent is shown, as text', async () => {
    const page = await open();
    await createConversation(page, 'An agent that tells all', 'teller');
    await send(page, 'go');
    await turnsDone(page, 1);
    assert.equal(await page.textContent('.thinking .block'), 'Let me <b>think</b>.');
    assert.equal(await output(page), 'Before the tool. After the tool.');
    const folds = await page.$$eval('.fold', (list) => list.map((fold) => fold.textContent));
    assert.equal(folds.length, 4);
    assert.match(folds[0], /search needle done.*needle.*found <i>it<\/i>/s);
    assert.match(folds[1], /<img src=x> failed.*no such tool/s);
    assert.match(folds[2], /result done/s);
    assert.match(folds[3], /One event as it came.*message.*assistant/s);
    assert.equal(await page.isVisible('.fold .content'), false);
    await page.click('.fold summary');
    assert.equal(await page.isVisible('.fold .content'), true);
    assert.match(await page.textContent('.error'), /something <u>odd<\/u>/);
    assert.equal(await page.evaluate(() => document.querySelectorAll('#turns img, #turns i, #turns u').length), 0);
    await page.click('.thinking summary');
    await screenshot(page, 'agent');
});

test('a conversation that another tab deletes is closed', async () => {
    const first = await open();
    await createConversation(first);
    const second = await open();
    await second.goto(first.url());
    await second.waitForSelector('#connection[data-state=live]');
    await first.click('#delete');
    await first.click('#delete-form button[type=submit]');
    await second.waitForSelector('#welcome:not([hidden])');
    await second.waitForSelector('#notice:not([hidden])');
});

test('a conversation is paused, resumed and deleted, each as its badge says', async () => {
    const page = await open();
    await createConversation(page);
    const id = new URL(page.url()).hash;
    await page.waitForFunction(() => document.getElementById('status').textContent === 'active');
    await page.click('#pause');
    await page.waitForFunction(() => document.getElementById('status').textContent === 'paused · by you');
    assert.equal(await page.textContent('#pause'), 'Resume');
    await page.waitForFunction(() => document.getElementById('turns').textContent.includes('Paused.'));
    await page.click('#pause');
    await page.waitForFunction(() => document.getElementById('status').textContent === 'active');
    const warm = await page.evaluate(async () => {
        const headers = { Authorization: `Bearer ${sessionStorage.getItem('atoll.key')}` };
        return (await (await fetch('/v1/system', { headers })).json()).warmPause;
    });
    await page.click('#freeze');
    const paused = warm === 'none' ? 'paused · by you' : 'frozen · by you';
    await page.waitForFunction((text) => document.getElementById('status').textContent === text, paused);
    assert.equal(await page.isVisible('#freeze'), false);
    await page.click('#pause');
    await page.waitForFunction(() => document.getElementById('status').textContent === 'active');
    await page.click('#delete');
    await page.click('#delete-form button[value=cancel]');
    assert.equal(await page.isVisible('#chat'), true);
    await page.click('#delete');
    await page.click('#delete-form button[type=submit]');
    await page.waitForSelector('#welcome:not([hidden])');
    assert.equal(await page.evaluate((hash) => document.querySelector(`#list a[href="${hash}"]`), id), null);
});

test('what this host does not enforce is a warning', async () => {
    const page = await open();
    await createConversation(page);
    const enforcement = await page.evaluate(async () => {
        const headers = { Authorization: `Bearer ${sessionStorage.getItem('atoll.key')}` };
        return (await (await fetch('/v1/system', { headers })).json()).notEnforced;
    });
    // It holds for all sandboxes: it is said once, in the line of the server, and among the facts.
    const line = (await page.textContent('#server')).toLowerCase();
    const facts = await page.$$eval('#facts-list dd.warn', (all) => all.map((fact) => fact.previousElementSibling.textContent));
    for (const name of Object.keys(enforcement)) {
        assert.ok(line.includes(name.toLowerCase()), `${name} is missing in: ${line}`);
        assert.ok(facts.includes(name), `${name} is missing in: ${facts}`);
    }
});

// The content of a gauge: its words, the share of the limit, the corners of its graph.
const gauge = (page, name) =>
    page.evaluate((wanted) => {
        const element = document.querySelector(`.gauge[data-name=${wanted}]`);
        return { text: element.querySelector('.words').textContent, share: Number(element.dataset.share), points: element.querySelector('polygon').getAttribute('points') };
    }, name);
const METRICS = /\/v1\/sandboxes\/[a-z0-9]+\/metrics$/;
const asked = (page) => page.seen.requests.filter((url) => METRICS.test(url)).length;
const shareAbove = (page, name, least) =>
    page.waitForFunction(([wanted, share]) => Number(document.querySelector(`.gauge[data-name=${wanted}]`)?.dataset.share) > share, [name, least]);

test('what the sandbox uses is shown as it takes it, and asked for only while the page is seen', async () => {
    const page = await open();
    await createConversation(page, 'Takes what it can');
    // Nothing is near its limit: the graphs are among the facts.
    await page.waitForSelector('#usage:not([hidden])', { state: 'attached' });
    assert.equal(await page.isVisible('#usage'), false);
    await page.click('#facts summary');
    await page.waitForSelector('#usage:not([hidden])');
    assert.match((await gauge(page, 'memory')).text, /^[\d.]+ [KM]B of 2 GB$/);
    assert.match((await gauge(page, 'processes')).text, /^\d+ of 64$/);
    // 300 MB on the disk and in memory, and a processor for as long as it gets it.
    await send(page, 'head -c 300000000 /dev/zero > file; x=$(yes | head -c 300000000); echo go; while :; do :; done');
    await shareAbove(page, 'memory', 0.13);
    await shareAbove(page, 'cpu', 0.3);
    await shareAbove(page, 'disk', 0.25);
    const { text, points } = await gauge(page, 'disk');
    assert.match(text, /^28\d MB of 1 GB$/);
    assert.ok(points.split(' ').length > 3, points);
    assert.equal(await page.evaluate(() => [...document.querySelectorAll('.gauge svg')].every((graph) => graph.getAttribute('aria-hidden') === 'true')), true);
    await screenshot(page, 'usage');

    const see = (seen) =>
        page.evaluate((hidden) => {
            Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event('visibilitychange'));
        }, !seen);
    await see(false);
    const before = asked(page);
    // Longer than several periods take: a turn that ends by itself.
    await page.click('#stop');
    await turnsDone(page, 1);
    await send(page, 'for i in 1 2 3 4 5; do sleep 1; done; echo rested');
    await turnsDone(page, 2);
    assert.ok(asked(page) <= before + 1, `${asked(page)} after ${before}`);
    const next = page.waitForRequest((request) => METRICS.test(request.url()));
    await see(true);
    await next;
    await page.waitForFunction(() => Number(document.querySelector('.gauge[data-name=cpu]').dataset.share) < 0.2);

    await page.click('#pause');
    await page.waitForSelector('#usage[hidden]', { state: 'attached' });
    await page.click('#pause');
    await page.waitForSelector('#usage:not([hidden])', { state: 'attached' });
});

test('the keyboard is enough, and everything that it reaches has a name', async () => {
    const page = await open();
    await page.focus('#new');
    await page.keyboard.press('Enter');
    await page.keyboard.type('By keyboard');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#connection[data-state=live]');
    await page.waitForFunction(() => document.activeElement.id === 'message');
    await page.keyboard.type('echo one;');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('echo two');
    await page.keyboard.press('Enter');
    await turnsDone(page, 1);
    assert.equal(await output(page), 'one\ntwo\n');
    const unnamed = await page.evaluate(() =>
        [...document.querySelectorAll('button, a[href], input, select, textarea, [tabindex]')]
            .filter((element) => element.checkVisibility())
            .filter((element) => !(element.getAttribute('aria-label') || element.textContent.trim() || element.labels?.[0]?.textContent.trim()))
            .map((element) => element.outerHTML),
    );
    assert.deepEqual(unnamed, []);
    await page.keyboard.press('Shift+Tab');
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.equal(outline, 'solid');
});

test('the link that skips to the message leads there, from every view, and keeps the conversation open', async () => {
    const page = await open();
    assert.equal(await page.isVisible('#skip'), false);
    await createConversation(page, 'Skipped to');
    const address = page.url();
    await page.click('#files-tab');
    await page.waitForSelector('#files-panel:not([hidden])');
    await page.focus('#skip');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.activeElement.id === 'message');
    await page.keyboard.type('echo typed');
    await page.keyboard.press('Enter');
    await turnsDone(page, 1);
    assert.equal(await output(page), 'typed\n');
    assert.equal(page.url(), address);
});

// Pairs of what stands in the head of a conversation and covers one another.
const overlaps = (page) =>
    page.evaluate(() => {
        const all = [...document.querySelectorAll('.chat-head :is(button, .badge, h2, a)')].filter((element) => element.checkVisibility() && !element.closest('#menu'));
        const boxes = all.map((element) => [element.id || element.textContent, element.getBoundingClientRect()]);
        const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
        return boxes.flatMap(([name, box], index) => boxes.slice(index + 1).filter(([, other]) => meet(box, other)).map(([other]) => `${name} ${other}`));
    });

for (const [name, options] of [
    ['light', { colorScheme: 'light', viewport: { width: 1180, height: 780 } }],
    ['dark', { colorScheme: 'dark', viewport: { width: 1180, height: 780 } }],
    ['phone', { colorScheme: 'light', viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }],
    ['phone-dark', { colorScheme: 'dark', reducedMotion: 'reduce', viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }],
])
    test(`it fits and reads well: ${name}`, async () => {
        await context.close();
        context = await browser.newContext(options);
        const page = await open();
        const fits = async () => {
            const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
            assert.ok(wide <= window, `${wide} > ${window}`);
        };
        await fits();
        await page.click('#new');
        await fits();
        await screenshot(page, `${name}-create`);
        await page.click('#create-form button[value=cancel]');
        await createConversation(page, 'A look at the output of a few commands');
        await send(page, `ls -la /; printf '\\e[1;32mgood\\e[0m \\e[33mso so\\e[0m \\e[31mbad\\e[0m\\n'; echo ${'wide'.repeat(60)}; false`);
        await turnsDone(page, 1);
        await send(page, 'for i in 1 2 3; do echo line $i; sleep 0.1; done; sleep 1000');
        await page.waitForFunction(() => document.getElementById('turns').textContent.includes('line 3\n'));
        await page.waitForSelector('#usage:not([hidden])', { state: 'attached' });
        await fits();
        assert.deepEqual(await overlaps(page), []);
        await screenshot(page, name);
        await page.click('#menu-button');
        await page.waitForSelector('#menu:popover-open');
        assert.equal(await page.locator('#menu #pause').count(), name.startsWith('phone') ? 1 : 0);
        await fits();
        await screenshot(page, `${name}-menu`);
        await page.keyboard.press('Escape');
        await page.click('#facts summary');
        await fits();
        await screenshot(page, `${name}-facts`);
        const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        const brightness = Number(/\d+/.exec(background)[0]);
        assert.ok(name.includes('dark') ? brightness < 100 : brightness > 200, background);
        await page.click('#stop');
        await turnsDone(page, 2);
    });
