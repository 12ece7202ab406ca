// The console's preview: a server inside a sandbox, found by itself, in a frame beside the chat.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { hold, newPage, screenshot, startBrowser, startServer } from './lab.mjs';
import { previewApi } from './preview_lab.mjs';

const skip = process.getuid() === 0 ? false : 'needs root';
// Python's server says nothing of caches: a browser then keeps a page by the age of its file.
const serve = (port, folder) => `exec python3 -c '
import functools, http.server
class Handler(http.server.SimpleHTTPRequestHandler):
    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", ${port}), functools.partial(Handler, directory="${folder}")).serve_forever()'`;
const FORMS = { names: ['--preview-domain', 'localhost'], ports: [] };

for (const [form, flags] of Object.entries(FORMS)) {
    test(`a server that begins to listen appears beside the chat, at previews by ${form}`, { skip }, async () => {
        const server = await startServer({ flags });
        const browser = await startBrowser();
        try {
            const api = previewApi(server);
            const site = await api.conversation();
            await api.put(site, 'one/index.html', '<p id="says">first page</p>');
            await api.put(site, 'two/index.html', '<p id="says">second page</p>');
            const page = await newPage(await browser.newContext());
            const frame = page.frameLocator('#preview-frame iframe').locator('#says');
            await page.goto(`http://${server.address}/#key=${encodeURIComponent(server.key)}&c=${site.conversation}`);
            await page.waitForSelector('#connection[data-state=live]');
            assert.equal(await page.isVisible('#preview'), false);

            await api.start(site, serve(5173, 'one'));
            await frame.filter({ hasText: 'first page' }).waitFor();
            assert.equal(await page.getAttribute('#preview-open', 'href'), site.url);
            await screenshot(page, `console-preview-${form}`);

            // A port that is not listed is offered, or has a name of its own at once.
            await api.start(site, serve(8080, 'two'));
            if (form === 'names') await page.click('#preview-offer button:has-text("8080")');
            else await page.selectOption('#preview-port', '8080');
            await frame.filter({ hasText: 'second page' }).waitFor();

            // A page without hot reload is loaded again with each change, where that is wanted.
            await page.check('#preview-follow');
            await api.replace(site, 'two/index.html', 'second page', 'second page, changed');
            await frame.filter({ hasText: 'changed' }).waitFor();

            await page.click('#preview-close');
            assert.equal(await page.isVisible('#preview'), false);
            await page.click('#preview-offer button:has-text("8080")');
            await frame.filter({ hasText: 'changed' }).waitFor();

            // A frozen server is no living page, and goes on where it was.
            if ((await api.call('GET', '/v1/system')).warmPause !== 'none') {
                await page.click('#freeze');
                await page.waitForSelector('#veil:not([hidden])');
                assert.equal(await page.textContent('#veil-text'), 'Port 8080 does not answer: the conversation is frozen.');
                await page.click('#veil-resume');
                await page.waitForSelector('#veil', { state: 'hidden' });
                await frame.filter({ hasText: 'changed' }).waitFor();
            }

            // A closed port is no living page.
            await page.click('#pause');
            await page.waitForSelector('#veil:not([hidden])');
            await page.waitForSelector('#veil-resume:not([hidden])');
            assert.equal(await page.textContent('#veil-text'), 'Port 8080 is closed: the conversation is paused.');
            await screenshot(page, `console-preview-closed-${form}`);
            await page.click('#veil-resume');
            await page.waitForFunction(() => document.getElementById('veil-text').textContent.includes('nothing listens there'));
            await api.put(site, 'two/index.html', '<p id="says">second page, again</p>');
            await api.start(site, serve(8080, 'two'));
            await frame.filter({ hasText: 'again' }).waitFor();
            await page.waitForSelector('#veil', { state: 'hidden' });
            await api.start(site, serve(5173, 'one'));

            // A private one gets its pass.
            await api.call('PATCH', `/v1/conversations/${site.conversation}`, { preview: { access: 'private' } });
            const stranger = await (await browser.newContext()).newPage();
            assert.equal((await stranger.goto(await page.getAttribute('#preview-open', 'href'))).status(), 403);
            await page.reload();
            await frame.filter({ hasText: 'page' }).waitFor();
            const [tab] = await Promise.all([page.context().waitForEvent('page'), page.click('#preview-open')]);
            await tab.locator('#says').waitFor();
            assert.deepEqual(page.seen.errors, []);
            assert.deepEqual(await page.evaluate(() => window.violations), []);
        } finally {
            await browser.close();
            await server.stop();
        }
    });
}

test('an empty conversation offers to serve a page, which opens beside the chat', { skip }, async () => {
    const server = await startServer({ flags: FORMS.names });
    const browser = await startBrowser();
    try {
        const site = await previewApi(server).conversation();
        const page = await newPage(await browser.newContext());
        await page.goto(`http://${server.address}/#key=${encodeURIComponent(server.key)}&c=${site.conversation}`);
        await page.click('#starters button:has-text("Serve a page")');
        await page.frameLocator('#preview-frame iframe').locator('h1').filter({ hasText: 'Hello from the sandbox' }).waitFor();
        assert.deepEqual(page.seen.errors, []);
    } finally {
        await browser.close();
        await server.stop();
    }
});

test('on a phone the preview is a view of its own, and its end leads back to the chat', { skip }, async () => {
    const server = await startServer({ flags: FORMS.names });
    const browser = await startBrowser();
    try {
        const site = await previewApi(server).conversation();
        const page = await newPage(await browser.newContext({ viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }));
        await page.goto(`http://${server.address}/#key=${encodeURIComponent(server.key)}&c=${site.conversation}`);
        await page.click('#starters button:has-text("Serve a page")');
        await page.click('#preview-tab');
        await page.frameLocator('#preview-frame iframe').locator('h1').filter({ hasText: 'Hello from the sandbox' }).waitFor();
        assert.equal(await page.isVisible('#message'), false);
        const { height } = await page.locator('#preview-frame').boundingBox();
        assert.ok(height > 450, `${height}`);
        await screenshot(page, 'console-preview-phone');
        await page.click('#preview-close');
        assert.equal(await page.isVisible('#message'), true);
        assert.equal(await page.isVisible('#preview-tab'), false);
    } finally {
        await browser.close();
        await server.stop();
    }
});

test('a port that is listed while another conversation is open leaves the preview of that one', { skip }, async () => {
    const server = await startServer({ flags: FORMS.names });
    const browser = await startBrowser();
    try {
        const api = previewApi(server);
        const first = await api.conversation();
        const second = await api.conversation();
        for (const [site, text] of [[first, 'of the first'], [second, 'of the second']]) {
            await api.put(site, 'site/index.html', `<p id="says">${text}</p>`);
            await api.start(site, serve(5173, 'site'));
        }
        await api.start(first, serve(8080, 'site'));
        const page = await newPage(await browser.newContext());
        const frame = page.frameLocator('#preview-frame iframe').locator('#says');
        await page.goto(`http://${server.address}/#key=${encodeURIComponent(server.key)}&c=${first.conversation}`);
        await frame.filter({ hasText: 'of the first' }).waitFor();
        const held = await hold(page, 'PATCH', new RegExp(`^/v1/conversations/${first.conversation}$`));
        await page.click('#preview-offer button:has-text("8080")');
        await held.asked;
        await page.goto(`http://${server.address}/#c=${second.conversation}`);
        await frame.filter({ hasText: 'of the second' }).waitFor();
        await page.$eval('#preview-frame iframe', (element) => (element.dataset.kept = 'yes'));
        await held.answer();
        assert.equal(await page.isVisible('#preview-frame iframe[data-kept]'), true);
        assert.deepEqual(page.seen.errors, []);
    } finally {
        await browser.close();
        await server.stop();
    }
});
