// Previews in a real browser: Vite with hot reload, Node, python, in sandboxes that have no network at all.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { newPage, screenshot, startBrowser, startServer } from './lab.mjs';
import { hostPort, previewApi, startFramingSite } from './preview_lab.mjs';

const VITE_PORT = 5173;
const IS_ROOT = process.getuid() === 0;
const IS_FULL = process.env.ATOLL_TEST_FULL === '1';
const skip = IS_ROOT ? false : 'needs root';

let server;
let browser;
let api;
let site; // the sandbox that most tests share; Vite runs in it
let vite; // its process, once it was started
let context;
let page;

before(async () => {
    if (!IS_ROOT) return;
    server = await startServer({ flags: ['--preview-domain', 'localhost'] });
    api = previewApi(server);
    browser = await startBrowser();
    site = await makeSite();
});
after(async () => {
    await browser?.close();
    await server?.stop();
});
beforeEach(async () => {
    if (!IS_ROOT) return;
    context = await browser.newContext();
    page = await newPage(context);
});
afterEach(async () => {
    await context?.close();
});

const originOf = (url) => new URL(url).origin;
const textOf = (where) => where.locator('#count').textContent();
const shows = (where, text) => where.locator('#count', { hasText: text }).waitFor();

/** Remembers what a reload would forget: a count in the component, a value in the page. */
async function leaveState(frame) {
    await shows(frame, '0');
    for (let clicks = 1; clicks <= 3; ++clicks) {
        await frame.click('#count');
        await shows(frame, String(clicks));
    }
    await frame.evaluate(() => (window.kept = 'kept'));
}

const keptState = async (frame) => [await frame.evaluate(() => window.kept), /\d+$/.exec(await textOf(frame))[0]];

const startVite = () => (vite ??= api.startVite(site));

/** Resolves once Vite's client in the page is connected: before that an edit might be missed. */
const hotReloadOf = (watched) => watched.waitForEvent('console', (message) => message.text().includes('[vite] connected'));

/** A conversation with the site in its workspace; `says` is the word of its component. */
async function makeSite(wanted, from = api) {
    const made = { ...(await from.conversation(wanted)), says: 'first' };
    await from.unpackSite(made);
    return made;
}

/** The component says `word` from now on, by a tool's edit. */
async function reword(word, edited = site, by = api) {
    await by.replace(edited, 'App.jsx', edited.says, word);
    edited.says = word;
}

test('a page opened before the dev server listens shows it as soon as it does', { skip }, async () => {
    const answer = await page.goto(site.url);
    assert.equal(answer.status(), 503);
    await page.waitForSelector('text=Nothing listens on port 5173');
    await startVite();
    await shows(page, 'first 0').catch(async (error) => {
        throw new Error(`${error}: ${await api.logs(site)}`);
    });
    assert.deepEqual(page.seen.errors, []);
});

test('a component that a tool edits is shown by hot reload, with its state, through the preview alone', { skip }, async () => {
    await startVite();
    const connected = hotReloadOf(page);
    const upgraded = page.waitForEvent('websocket');
    await page.goto(site.url);
    await connected;
    // The dev server's own port is in another network namespace, so its client cannot go there behind the proxy's back.
    assert.equal(await hostPort(VITE_PORT), 'ECONNREFUSED');
    for (const host of ['localhost', '127.0.0.1', '[::1]'])
        await assert.rejects(page.evaluate((address) => fetch(address, { mode: 'no-cors' }), `http://${host}:${VITE_PORT}/`), host);
    await leaveState(page);
    await reword('second');
    await shows(page, 'second 3');
    // The same by a request for the file, and of a stylesheet.
    await api.put(site, 'style.css', '#count { color: rgb(9, 8, 7); font: 2rem sans-serif; }');
    await page.waitForFunction(() => getComputedStyle(document.querySelector('#count')).color === 'rgb(9, 8, 7)');
    assert.deepEqual(await keptState(page), ['kept', '3']);
    assert.deepEqual(page.seen.errors, []);
    const own = new URL(site.url).host;
    const hosts = page.seen.requests.filter((url) => !url.includes(`:${VITE_PORT}/`)).map((url) => new URL(url).host);
    assert.deepEqual([...new Set(hosts)], [own]);
    assert.match((await upgraded).url(), /^ws:\/\/[^/]+\/\?token=/);
    assert.equal(page.seen.requests.filter((url) => url.startsWith('ws:')).length, 1);
    await screenshot(page, 'preview-vite');
});

test('hot reload works in an iframe of a page of another site', { skip }, async () => {
    await startVite();
    const outer = await startFramingSite(site.url);
    try {
        const connected = hotReloadOf(page);
        await page.goto(outer.url);
        await connected;
        const frame = framed(originOf(site.url));
        await leaveState(frame);
        await reword('framed');
        await shows(frame, 'framed 3');
        assert.deepEqual(await keptState(frame), ['kept', '3']);
        assert.deepEqual(page.seen.errors, []);
        await screenshot(page, 'preview-in-frame');
    } finally {
        await outer.stop();
    }
});

test('two visitors see the same edit, and a request for a missing module is Vite’s own answer', { skip }, async () => {
    await startVite();
    const second = await newPage(context);
    for (const each of [page, second]) {
        const connected = hotReloadOf(each);
        await each.goto(site.url);
        await connected;
    }
    await reword('shared');
    await Promise.all([shows(page, 'shared'), shows(second, 'shared')]);
    const { status, type } = await page.evaluate(async () => {
        const answer = await fetch('/missing.jsx', { headers: { Accept: '*/*' } });
        return { status: answer.status, type: answer.headers.get('content-type') };
    });
    assert.notEqual(status, 503);
    assert.doesNotMatch(type ?? '', /problem/);
});

/** The page is at `url`, with hot reload, once Vite shows it. */
async function openSite(url) {
    const connected = hotReloadOf(page);
    await page.goto(url);
    await connected;
}

const framed = (origin) => page.frames().find((each) => each !== page.mainFrame() && originOf(each.url()) === origin);

test('each form of an address has hot reload: a port of this machine, a name with a port', { skip }, async () => {
    await startVite();
    const { id } = site;
    await openSite(site.url.replace(id, `${id}-${VITE_PORT}`));
    await leaveState(page);
    await reword('named');
    await shows(page, 'named 3');
    const local = await startServer();
    try {
        const ports = previewApi(local);
        const other = await makeSite({}, ports);
        assert.match(other.url, /^http:\/\/localhost:3\d{4}\/$/);
        await ports.startVite(other);
        await openSite(other.url);
        await leaveState(page);
        await reword('ported', other, ports);
        await shows(page, 'ported 3');
        assert.deepEqual(await keptState(page), ['kept', '3']);
        const sockets = page.seen.requests.filter((url) => url.startsWith('ws:'));
        assert.equal(new URL(sockets.at(-1)).host, new URL(other.url).host);
        assert.deepEqual(page.seen.errors, []);
    } finally {
        await local.stop();
    }
});

test('a private preview is shown in an iframe of another site by its token, hot reload included, and to nobody else', { skip }, async () => {
    const hidden = await makeSite({ preview: { access: 'private' } });
    await api.startVite(hidden);
    const refused = await page.goto(hidden.url);
    assert.equal(refused.status(), 403);
    assert.match(refused.headers()['content-type'], /^text\/html/);
    const { url } = await api.call('POST', `/v1/conversations/${hidden.conversation}/tokens`, { scope: 'preview', ttlSeconds: 300 });
    const outer = await startFramingSite(url);
    try {
        const connected = hotReloadOf(page);
        await page.goto(outer.url);
        await connected;
        const frame = framed(originOf(hidden.url));
        assert.doesNotMatch(frame.url(), /token=/);
        await leaveState(frame);
        await reword('secret', hidden);
        await shows(frame, 'secret 3');
        assert.deepEqual(await keptState(frame), ['kept', '3']);
        // The page has no hand on the cookie, and the cookie is the iframe's: the preview by itself still shows nothing.
        assert.equal(await frame.evaluate(() => document.cookie), '');
        const [cookie] = (await context.cookies()).filter(({ name }) => name.startsWith('__Host-'));
        assert.deepEqual([cookie.httpOnly, cookie.secure, cookie.sameSite], [true, true, 'None']);
        await screenshot(page, 'preview-private-in-frame');
        const alone = await newPage(context);
        assert.equal((await alone.goto(hidden.url)).status(), 403);
        const socket = await alone.evaluate(
            () =>
                new Promise((done) => {
                    const tried = new WebSocket(`ws://${location.host}/`, 'vite-hmr');
                    tried.onopen = () => done('open');
                    tried.onerror = () => done('refused');
                }),
        );
        assert.equal(socket, 'refused');
    } finally {
        await outer.stop();
    }
});

test('an open page comes back after a pause, which its own request ends, and reloads hot again', { skip }, async () => {
    const sleeper = await makeSite({ preview: { wake: true } });
    await api.startVite(sleeper, { restart: 'generation' });
    await openSite(sleeper.url);
    await leaveState(page);
    const connected = hotReloadOf(page);
    await api.call('POST', `/v1/conversations/${sleeper.conversation}/pause`, { mode: 'cold' });
    await connected;
    await leaveState(page);
    await reword('awake', sleeper);
    await shows(page, 'awake 3');
    assert.equal((await api.call('GET', `/v1/conversations/${sleeper.conversation}`)).status, 'active');
});

/** A sandbox with the servers of the tests, of which `name` runs; the page is at its root. */
async function serve(name, more) {
    const sandbox = await api.sandbox();
    await api.unpackSite(sandbox);
    await api.startNode(sandbox, name, more);
    await open(sandbox, '#ready');
    return sandbox;
}

/** Opens the preview and waits for `selector`: the page in between asks again until the server listens. */
async function open(sandbox, selector) {
    await page.goto(sandbox.url);
    await page.waitForSelector(selector).catch(async (error) => {
        throw new Error(`${error}: ${await api.logs(sandbox)}`);
    });
}

test('python’s own server shows a folder and its files', { skip }, async () => {
    const sandbox = await api.sandbox();
    await api.put(sandbox, 'plain.txt', 'plain text\n');
    await api.put(sandbox, 'folder/index.html', '<!doctype html><h1>inside</h1>');
    await api.start(sandbox, `exec python3 -m http.server ${VITE_PORT} --bind 127.0.0.1`);
    await open(sandbox, 'a[href="plain.txt"]');
    // Without the slash python answers with a redirect: it stays at the preview.
    await page.goto(`${sandbox.url}folder`);
    assert.equal(page.url(), `${sandbox.url}folder/`);
    assert.equal(await page.textContent('h1'), 'inside');
    await page.goto(`${sandbox.url}plain.txt`);
    assert.equal(await page.textContent('body'), 'plain text\n');
    const missing = await page.goto(`${sandbox.url}missing`);
    assert.equal(missing.status(), 404);
});

test('an EventSource gets each event when it is sent, and goes on after its last one', { skip }, async () => {
    await serve('events');
    await page.evaluate(() => {
        const seen = (window.seen = { opens: 0, events: [] });
        const source = new EventSource('/events');
        source.onopen = () => ++seen.opens;
        source.onmessage = ({ data, lastEventId }) => seen.events.push(`${lastEventId} ${data}`);
    });
    const say = (text) => page.evaluate((path) => fetch(path).then((answer) => answer.text()), `/say?${text}`);
    const heard = (count) => page.waitForFunction((wanted) => window.seen.events.length >= wanted, count);
    await page.waitForFunction(() => window.seen.opens === 1);
    for (let count = 1; count <= 3; ++count) {
        // The next one is said only after this one was heard: nothing in between may wait for more.
        assert.equal(await say(`word${count}`), '1');
        await heard(count);
    }
    await page.evaluate(() => fetch('/end'));
    await page.waitForFunction(() => window.seen.opens === 2);
    await say('word4');
    await heard(4);
    assert.deepEqual(await page.evaluate(() => window.seen.events), ['1 word1', '2 word2', '3 word3', '4 word4']);
});

test('a WebSocket under ws has compression, its subprotocol, frames of 1 MiB and its close code', { skip }, async () => {
    const sandbox = await serve('socket', { env: { IDLE_MS: IS_FULL ? '61000' : '10' } });
    page.setDefaultTimeout(90_000);
    const seen = await page.evaluate(async () => {
        const socket = new WebSocket(`ws://${location.host}/echo?a=b`, ['first', 'second']);
        socket.binaryType = 'arraybuffer';
        const got = [];
        let wake = () => {};
        const closed = new Promise((done) => (socket.onclose = ({ code, reason, wasClean }) => done({ code, reason, wasClean })));
        socket.onmessage = ({ data }) => {
            got.push(data);
            wake();
        };
        const next = async () => {
            while (got.length === 0) {
                const more = new Promise((done) => (wake = () => done('more')));
                if ((await Promise.race([more, closed])) !== 'more') throw new Error('it was closed');
            }
            return got.shift();
        };
        const hello = JSON.parse(await next());
        const { extensions, protocol } = socket;
        socket.send('a');
        const small = await next();
        // The text compresses well, and the noise does not.
        const text = 'x'.repeat(1024 * 1024);
        const noise = new Uint8Array(1024 * 1024);
        for (let at = 0; at < noise.length; at += 65536) crypto.getRandomValues(noise.subarray(at, at + 65536));
        let equal = 0;
        for (let round = 0; round < 4; ++round) {
            socket.send(text);
            socket.send(noise);
        }
        for (let round = 0; round < 4; ++round) {
            equal += (await next()) === text ? 1 : 0;
            const back = new Uint8Array(await next());
            equal += back.length === noise.length && back.every((byte, index) => byte === noise[index]) ? 1 : 0;
        }
        socket.send('later');
        const later = await next();
        socket.send('close');
        return { hello, extensions, protocol, small, equal, later, close: await closed };
    });
    assert.match(seen.extensions, /permessage-deflate/);
    assert.deepEqual([seen.protocol, seen.small, seen.equal, seen.later], ['second', 'a', 8, 'now']);
    assert.deepEqual(seen.close, { code: 4001, reason: 'as asked', wasClean: true });
    // A dev server that compares both is content, and its query is its own.
    assert.deepEqual(seen.hello, { url: '/echo?a=b', host: `localhost:${VITE_PORT}`, origin: `http://localhost:${VITE_PORT}` });
    assert.equal((await page.goto(sandbox.url)).status(), 200);
});

test('a large download arrives whole, with a length and without', { skip }, async () => {
    await serve('blocks');
    const blocks = IS_FULL ? 2048 : 64;
    page.setDefaultTimeout(120_000);
    for (const way of ['blocks', 'chunked']) {
        const seen = await page.evaluate(async (path) => {
            const answer = await fetch(path);
            const reader = answer.body.getReader();
            const block = 1024 * 1024;
            let at = 0;
            let wrong = 0;
            for (;;) {
                const { done, value } = await reader.read();
                if (done) return { at, wrong, length: answer.headers.get('content-length') };
                // The last byte of each block tells which one it is.
                for (let end = block - 1 - (at % block); end < value.length; end += block)
                    wrong += value[end] === Math.floor((at + end) / block) % 251 ? 0 : 1;
                at += value.length;
            }
        }, `/${way}?${blocks}`);
        const bytes = blocks * 1024 * 1024;
        assert.deepEqual(seen, { at: bytes, wrong: 0, length: way === 'blocks' ? String(bytes) : null });
    }
});
