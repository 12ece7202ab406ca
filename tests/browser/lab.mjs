// The tools of the browser tests: a real atolld with a test agent, a browser, and pages that are watched.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { startServer as startAtolld } from '../node_support/server.mjs';

export { startProxy } from '../node_support/proxy.mjs';

export const SCREENSHOTS = process.env.ATOLL_SCREENSHOTS;
const CANDIDATES = ['/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/google-chrome-stable'];
const DEADLINE_MS = 60_000;

export function startServer({ flags = [] } = {}) {
    return startAtolld({
        flags,
        prepare(folder) {
            const agents = path.join(folder, 'agents.json');
            const from = path.join(path.dirname(fileURLToPath(import.meta.url)), 'agent');
            const dir = path.join(folder, 'agent');
            mkdirSync(dir, { mode: 0o755 });
            for (const name of ['teller.py', 'coder.py']) copyFileSync(path.join(from, name), path.join(dir, name));
            const all = [
                { name: 'teller', argv: ['python3', '/agent/teller.py'], dir },
                { name: 'coder', adapter: 'acp', argv: ['python3', '/agent/coder.py'], dir },
                { name: 'absent', adapter: 'acp', argv: ['/agent/absent'], dir: '/no/such/folder', setup: 'scripts/setup --agents absent' },
            ];
            writeFileSync(agents, JSON.stringify({ agents: all }));
            return ['--agents-file', agents, '--disk-period', '2'];
        },
    });
}

/** A headless Chromium; `names` are looked up at this machine, as a wildcard record of DNS would have it. */
export async function startBrowser({ names } = {}) {
    const { chromium } = createRequire(path.join(process.env.ATOLL_BROWSER_MODULES, 'package.json'))('playwright-core');
    const executablePath = process.env.ATOLL_CHROMIUM || CANDIDATES.find((candidate) => existsSync(candidate));
    // Its own sandbox does not start as root.
    const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
    if (names) args.push(`--host-resolver-rules=MAP ${names} 127.0.0.1`);
    return chromium.launch({ executablePath, args, timeout: DEADLINE_MS });
}

/** A page whose requests, errors, dialogs and policy violations are written down in `page.seen`. */
export async function newPage(context) {
    const page = await context.newPage();
    page.setDefaultTimeout(DEADLINE_MS);
    const seen = { requests: [], errors: [], dialogs: 0, popups: 0 };
    page.seen = seen;
    page.on('request', (request) => seen.requests.push(request.url()));
    page.on('websocket', (socket) => seen.requests.push(socket.url()));
    page.on('pageerror', (error) => seen.errors.push(String(error)));
    page.on('dialog', (dialog) => {
        ++seen.dialogs;
        dialog.dismiss();
    });
    page.on('popup', () => ++seen.popups);
    page.on('console', (message) => {
        if (message.text().includes('Content Security Policy')) seen.errors.push(message.text());
    });
    await page.addInitScript(() => {
        window.violations = [];
        document.addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective));
    });
    return page;
}

export async function signIn(page, server, address = server.address) {
    await page.goto(`http://${address}/#key=${encodeURIComponent(server.key)}`);
    await page.waitForSelector('#app:not([hidden])');
}

/** Asks the API with the server's own key; the JSON of its answer, or null where there is none. */
export async function callApi(server, method, path, body) {
    const headers = { Authorization: `Bearer ${server.key}`, 'Content-Type': 'application/json' };
    const response = await fetch(`http://${server.address}${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
    return text === '' ? null : JSON.parse(text);
}

export async function createConversation(page, title = '', agent = 'shell') {
    await page.click('#new');
    await page.selectOption('#create-agent', agent);
    if (title !== '') await page.fill('#create-name', title);
    await page.click('#create-form button[type=submit]');
    await page.waitForSelector('#chat:not([hidden])');
    await page.waitForSelector('#connection[data-state=live]');
}

export async function send(page, text) {
    await page.fill('#message', text);
    await page.press('#message', 'Enter');
}

/** Waits until `count` turns are over. */
export async function turnsDone(page, count) {
    const over = (wanted) => document.querySelectorAll('.turn[data-over="1"]').length >= wanted;
    await page.waitForFunction(over, count);
}

/** The text of the newest turn's output. */
export function output(page) {
    return page.evaluate(() => {
        const blocks = [...document.querySelectorAll('.turn')].at(-1).querySelectorAll('.text');
        return [...blocks].map((block) => block.textContent).join('');
    });
}

/**
 * Holds back a request of `method` at the path that `matches` describes. `asked` resolves when the page has made it; `answer()` lets the
 * server answer it, or answers with `problem` where there is one, and resolves when the page has taken the answer.
 */
export async function hold(page, method, matches, problem) {
    let told;
    let release;
    const asked = new Promise((done) => (told = done));
    const released = new Promise((done) => (release = done));
    const isThere = (url) => matches.test(url.pathname);
    const isMeant = (request) => request.method() === method && isThere(new URL(request.url()));
    const handler = async (route) => {
        if (!isMeant(route.request())) return route.fallback();
        told();
        await released;
        if (problem === undefined) await route.continue();
        else await route.fulfill({ status: problem.status, contentType: 'application/problem+json', body: JSON.stringify(problem) });
    };
    await page.route(isThere, handler);
    return {
        asked,
        async answer() {
            // Not `requestfinished`, which does not come where the page leaves the body unread.
            const answered = page.waitForResponse((response) => isMeant(response.request()));
            release();
            await answered;
            await page.unroute(isThere, handler);
            await roundTrip(page);
            await roundTrip(page);
        },
    };
}

// When this answer is there, the page has taken every answer that came before.
const roundTrip = (page) => page.evaluate(async () => (await fetch('/console/icon.svg')).text());

export async function screenshot(page, name) {
    mkdirSync(SCREENSHOTS, { recursive: true });
    await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`) });
}
