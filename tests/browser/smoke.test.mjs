// The one test of a browser that the gate runs: the console signs in, a turn arrives, a reload keeps it.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createConversation, newPage, output, send, signIn, startBrowser, startServer, turnsDone } from './lab.mjs';

test('smoke: a turn is sent from the console, and a reload comes back to it', async (t) => {
    const server = await startServer();
    t.after(() => server.stop());
    const browser = await startBrowser();
    t.after(() => browser.close());
    const page = await newPage(await browser.newContext());
    await signIn(page, server);
    await createConversation(page, 'Smoke');
    await send(page, 'echo "it is $((6 * 7))"');
    await turnsDone(page, 1);
    assert.equal(await output(page), 'it is 42\n');
    await page.reload();
    await turnsDone(page, 1);
    assert.equal(await output(page), 'it is 42\n');
    assert.deepEqual(page.seen.errors, []);
});
