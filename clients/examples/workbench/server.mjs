// The backend of the workbench, with Express. It has the API key; the page gets tokens for its user's own conversation.
//
//     npm ci
//     ATOLL_URL=http://127.0.0.1:4100 ATOLL_API_KEY=KEY PORT=8080 node server.mjs
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';

import express from 'express';

import { Atoll } from '../../js/src/index.js';

/** A server, not yet listening. `settings` {atollUrl, atoll, tokenSeconds} is read for each request; `atoll` is a client with a key. */
export function createBackend(settings) {
    const folder = (name) => express.static(fileURLToPath(new URL(name, import.meta.url)));

    /** The user of a request. A product has its own sessions; here every browser is a new user. */
    function userOf(request, response) {
        const known = /(?:^|; )user=([0-9a-f-]{36})/.exec(request.get('cookie') ?? '')?.[1];
        if (known !== undefined) return known;
        const user = randomUUID();
        response.cookie('user', user, { httpOnly: true, sameSite: 'strict' });
        return user;
    }

    /** The conversation of the request's user, made where there is none: two pages at once have the same key, and so get one. */
    async function conversationOf(request, response) {
        const userId = userOf(request, response);
        for await (const conversation of settings.atoll.conversations.list({ userId, limit: 1 })) return conversation;
        return settings.atoll.conversations.create({ agent: 'shell', userId, idempotencyKey: `workbench-${userId}` });
    }

    const app = express();
    app.use(folder('page'), express.json());
    app.use('/client', folder('../../js/src'));
    app.use('/xterm', folder('node_modules/@xterm/xterm'));
    app.post('/session', async (request, response) => {
        const { id, info } = await conversationOf(request, response);
        response.json({ atollUrl: settings.atollUrl, conversationId: id, sandboxId: info.sandboxId });
    });
    // The page names a scope, never a conversation: so there is nothing to check.
    app.post('/token', async (request, response) => {
        const conversation = await conversationOf(request, response);
        const owner = request.body.scope === 'chat' ? conversation : conversation.sandbox;
        response.json(await owner.createToken({ scope: request.body.scope, ttlSeconds: settings.tokenSeconds }));
    });
    return createServer(app);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    const { ATOLL_URL: atollUrl = 'http://127.0.0.1:4100', PORT = '8080' } = process.env;
    const settings = { atollUrl, atoll: new Atoll({ baseUrl: atollUrl }), tokenSeconds: 300 };
    createBackend(settings).listen(Number(PORT), '127.0.0.1', () => console.log(`http://127.0.0.1:${PORT}/`));
}
