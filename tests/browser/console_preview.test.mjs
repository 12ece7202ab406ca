// The console's preview: a server inside a sandbox, found by itself, in a frame beside the chat.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { newPage, screenshot, startBrowser, startServer } from './lab.mjs';
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

            // A port that is not listed is offered.
            await api.start(site, serve(8080, 'two'));
            await page.click('#preview-offer button:has-text("8080")');
            await frame.filter({ hasText: 'second page' }).waitFor();

            // A page without hot reload is loaded again with each change, where that is wanted.
            await page.check('#preview-follow');
            await api.replace(site, 'two/index.html', 'second page', 'second page, changed');
            await frame.filter({ hasText: 'changed' }).waitFor();

            await page.click('#preview-close');
            assert.equal(await page.isVisible('#preview'), false);
            await page.click('#preview-offer button:has-text("8080")');
            await frame.filter({ hasText: 'changed' }).waitFor();

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
