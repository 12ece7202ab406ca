// Stands in for the routes of a sandbox (exec, files, processes, tools): a local server that records requests and answers as
// the test says. Not a sandbox: nothing runs.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(path.join(process.env.ATOLL_CLIENT_MODULES, 'package.json'));
const { WebSocketServer } = require('ws');

const JSON_TYPE = { 'Content-Type': 'application/json' };

async function bodyOf(request) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    return Buffer.concat(pieces);
}

/**
 * `answers` maps "METHOD path" (without query, as it was sent) to a function of {query, headers, body, response}: what it returns
 * is sent as JSON; if it returns nothing it has answered by itself. `onSocket(socket, {path, query, headers})` gets the WebSockets that
 * `accepts()`.
 */
export async function startStub({ answers = {}, onSocket = (socket) => socket.close(), accepts = () => true } = {}) {
    const requests = [];
    let arrived = () => {};
    const server = createServer(async (request, response) => {
        const [name, query = ''] = request.url.split('?');
        const seen = { method: request.method, target: request.url, path: name, query: new URLSearchParams(query), headers: request.headers, body: await bodyOf(request) };
        requests.push(seen);
        if (!name.endsWith('/tokens')) arrived();
        const answer = answers[`${request.method} ${name}`];
        if (answer === undefined) {
            response.writeHead(404, { 'Content-Type': 'application/problem+json' });
            return response.end(JSON.stringify({ status: 404, code: 'not_found', detail: `${request.method} ${name}`, requestId: 'r1' }));
        }
        const value = await answer({ ...seen, response });
        if (value !== undefined) response.writeHead(200, JSON_TYPE).end(JSON.stringify(value));
    });
    const sockets = new WebSocketServer({ server, verifyClient: accepts });
    sockets.on('connection', (socket, request) => {
        const [name, query = ''] = request.url.split('?');
        arrived();
        onSocket(socket, { path: name, query: new URLSearchParams(query), headers: request.headers });
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    return {
        address: `127.0.0.1:${server.address().port}`,
        key: 'stub-key',
        requests,
        sockets,
        /** Resolves with the next request, other than for a token, or WebSocket. */
        nextArrival: () => new Promise((done) => (arrived = done)),
        /** Ends the open connections, not the server. */
        cut() {
            for (const socket of sockets.clients) socket.terminate();
            server.closeAllConnections();
        },
        async stop() {
            this.cut();
            await new Promise((done) => server.close(done));
        },
    };
}

/** Answers with the frames of an event stream; `end: 'open'` leaves it open. */
export function sendFrames(response, frames, { end = 'close' } = {}) {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const frame of frames) response.write(`data: ${JSON.stringify(frame)}\n\n`);
    if (end === 'close') response.end();
}

/** Answers with a problem. */
export function refuse(response, status, code, headers = {}) {
    response.writeHead(status, { 'Content-Type': 'application/problem+json', ...headers });
    response.end(JSON.stringify({ status, code, detail: `told ${code}`, requestId: 'r1' }));
}
