// The backend of the chat page, with Express: knows its users by a cookie, has the API key, and hands out tokens.
//
//     npm ci
//     ATOLL_URL=http://127.0.0.1:4100 ATOLL_API_KEY=KEY PORT=8080 node server.mjs
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';

import express from 'express';

import { Atoll, AtollError } from '../../js/src/index.js';

const PAGE = fileURLToPath(new URL('page/', import.meta.url));
const CLIENT = fileURLToPath(new URL('../../js/src/', import.meta.url));
const MOST_BODY_BYTES = 4096;

/** The user of a request. In a product this is its own session; here anybody is a new user. */
function userOf(request, response) {
    const known = /(?:^|; )chat_user=([0-9a-f-]{36})/.exec(request.get('cookie') ?? '')?.[1];
    if (known !== undefined) return known;
    const user = randomUUID();
    response.cookie('chat_user', user, { httpOnly: true, sameSite: 'strict', path: '/' });
    return user;
}

/** A form of another site cannot send this type without a preflight, which nobody answers. */
function requireJson(request, response, next) {
    if (request.get('content-type') === 'application/json') next();
    else response.status(415).json({ code: 'unsupported_media_type' });
}

/** A server, not yet listening. `settings` {atollUrl, apiKey, tokenSeconds?} is read for each request. */
export function createBackend(settings) {
    const atoll = () => new Atoll({ baseUrl: settings.atollUrl, apiKey: settings.apiKey });
    const pageAtollUrl = () => settings.pageAtollUrl ?? settings.atollUrl;

    const app = express();
    app.disable('x-powered-by');
    app.use((request, response, next) => {
        const origins = `${pageAtollUrl()} ${pageAtollUrl().replace(/^http/, 'ws')}`;
        response.set('Content-Security-Policy', `default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' ${origins}`);
        response.set({ 'X-Content-Type-Options': 'nosniff', 'Cache-Control': 'no-store' });
        next();
    });
    app.use(express.static(PAGE, { cacheControl: false }));
    app.use('/client', express.static(CLIENT, { cacheControl: false }));
    app.post(/^/, requireJson, express.json({ limit: MOST_BODY_BYTES }));

    /** The user's conversation; a new one if there is none. */
    app.post('/conversation', async (request, response) => {
        const user = userOf(request, response);
        let found;
        for await (const conversation of atoll().conversations.list({ userId: user, limit: 1 })) {
            found = conversation;
            break;
        }
        // A user that opens two pages at once gets one conversation: the key is the same.
        found ??= await atoll().conversations.create({ agent: 'shell', userId: user, idempotencyKey: `chat-${user}` });
        response.json({ conversationId: found.id, atollUrl: pageAtollUrl() });
    });

    /** A token for this user's conversation, never for another's. */
    app.post('/token', async (request, response) => {
        const conversation = await atoll().conversations.get(String(request.body.conversationId));
        if (conversation.info.userId !== userOf(request, response)) throw new AtollError({ status: 404, code: 'not_found' });
        response.json(await conversation.createToken({ scope: 'chat', ttlSeconds: settings.tokenSeconds ?? 300 }));
    });

    // Express knows an error handler by its four parameters.
    app.use((error, request, response, next) => {
        const status = error instanceof AtollError ? error.status || 502 : (error.status ?? 500);
        response.status(status).json({ code: error instanceof AtollError ? error.code : 'refused' });
    });
    return createServer(app);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    const { ATOLL_URL: atollUrl = 'http://127.0.0.1:4100', ATOLL_API_KEY: apiKey, PORT = '8080' } = process.env;
    createBackend({ atollUrl, apiKey }).listen(Number(PORT), '127.0.0.1', () => console.log(`http://127.0.0.1:${PORT}/`));
}
