// What the browser tests work with: a real atolld, a proxy that can be cut, a browser, and pages that are watched.
import { spawn } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const SCREENSHOTS = process.env.ATOLL_SCREENSHOTS;
const CANDIDATES = ['/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/google-chrome-stable'];
const DEADLINE_MS = 20_000;

export async function startServer() {
    const dir = mkdtempSync(path.join(tmpdir(), 'atoll-browser-'));
    chmodSync(dir, 0o755);
    const environment = { PATH: process.env.PATH, LANG: 'C.UTF-8' };
    const agents = path.join(dir, 'agents.json');
    const agent = path.join(path.dirname(fileURLToPath(import.meta.url)), 'agent');
    mkdirSync(path.join(dir, 'agent'), { mode: 0o755 });
    copyFileSync(path.join(agent, 'teller.py'), path.join(dir, 'agent', 'teller.py'));
    writeFileSync(agents, JSON.stringify({ agents: [{ name: 'teller', argv: ['python3', '/agent/teller.py'], dir: path.join(dir, 'agent') }] }));
    const args = ['--listen', '127.0.0.1:0', '--data-dir', path.join(dir, 'data'), '--agents-file', agents];
    const child = spawn(path.join(process.env.ATOLL_BIN, 'atolld'), args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
    let log = '';
    const address = await new Promise((done, fail) => {
        const late = setTimeout(() => fail(new Error(`atolld does not serve: ${log}`)), DEADLINE_MS);
        const read = (text) => {
            log += text;
            const found = /console +http:\/\/([0-9.]+:\d+)\/#key=\S+\n/.exec(log);
            if (found === null) return;
            clearTimeout(late);
            done(found[1]);
        };
        child.stdout.setEncoding('utf8').on('data', read);
        child.stderr.setEncoding('utf8').on('data', read);
        child.on('exit', (code) => fail(new Error(`atolld ended with ${code}: ${log}`)));
    });
    const key = readFileSync(path.join(dir, 'data', 'api-key'), 'utf8').trim();
    return {
        address,
        key,
        consoleUrl: /console +(\S+)/.exec(log)[1],
        async stop() {
            const gone = new Promise((done) => child.once('exit', done));
            child.kill('SIGTERM');
            await gone;
            rmSync(dir, { recursive: true, force: true });
        },
    };
}

/** Forwards TCP connections to `target` ("host:port"), counting what comes from there; cut() kills those that are open. */
export async function startProxy(target) {
    const [host, port] = target.split(':');
    const sockets = new Set();
    let cuts = 0;
    let receivedBytes = 0;
    const server = net.createServer((near) => {
        const far = net.connect({ host, port: Number(port) });
        for (const socket of [near, far]) {
            sockets.add(socket);
            socket.setNoDelay(true);
            socket.on('error', () => {});
            socket.on('close', () => {
                sockets.delete(socket);
                near.destroy();
                far.destroy();
            });
        }
        far.on('data', (bytes) => (receivedBytes += bytes.length));
        near.pipe(far).pipe(near);
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    return {
        address: `127.0.0.1:${server.address().port}`,
        cut() {
            ++cuts;
            const count = sockets.size;
            for (const socket of sockets) socket.resetAndDestroy();
            return count;
        },
        cuts: () => cuts,
        receivedBytes: () => receivedBytes,
        async stop() {
            for (const socket of sockets) socket.destroy();
            await new Promise((done) => server.close(done));
        },
    };
}

export async function startBrowser() {
    const { chromium } = createRequire(path.join(process.env.ATOLL_BROWSER_MODULES, 'package.json'))('playwright-core');
    const executablePath = process.env.ATOLL_CHROMIUM || CANDIDATES.find((candidate) => existsSync(candidate));
    // Its own sandbox does not start as root.
    const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
    return chromium.launch({ executablePath, args });
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
    await page.waitForFunction(over, count, { timeout: 60_000 });
}

/** The text of the newest turn's output. */
export function output(page) {
    return page.evaluate(() => {
        const blocks = [...document.querySelectorAll('.turn')].at(-1).querySelectorAll('.text');
        return [...blocks].map((block) => block.textContent).join('');
    });
}

export async function screenshot(page, name) {
    mkdirSync(SCREENSHOTS, { recursive: true });
    await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`) });
}
