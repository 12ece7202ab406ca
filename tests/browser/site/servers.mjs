// Servers for a sandbox, on port 5173 of its loopback: `node servers.mjs NAME`. What they need is in node_modules here.
import { createServer } from 'node:http';

import { WebSocketServer } from 'ws';

const PORT = 5173;
const BLOCK_BYTES = 1024 * 1024;
const page = (response) => response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>server</title><p id="ready">ready');

/** `/events` streams what is told with `/say?text`; `/end` ends all streams. An event's id counts up. */
function events() {
    const streams = new Set();
    const said = [];
    const write = (stream, index) => stream.write(`id: ${index + 1}\ndata: ${said[index]}\n\n`);
    return createServer((request, response) => {
        const { pathname, search } = new URL(request.url, 'http://localhost');
        if (pathname === '/events') {
            response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
            response.write('retry: 10\n\n');
            for (let index = Number(request.headers['last-event-id'] ?? 0); index < said.length; ++index) write(response, index);
            streams.add(response);
            response.on('close', () => streams.delete(response));
        } else if (pathname === '/say') {
            said.push(decodeURIComponent(search.slice(1)));
            for (const stream of streams) write(stream, said.length - 1);
            response.end(String(streams.size));
        } else if (pathname === '/end') {
            for (const stream of streams) stream.end();
            response.end();
        } else page(response);
    });
}

/** Echoes messages, compressed as browsers do it; `close` is answered with a close code, `later` after `IDLE_MS`. */
function socket() {
    const server = createServer((request, response) => page(response));
    const sockets = new WebSocketServer({
        server,
        perMessageDeflate: { threshold: 0 },
        handleProtocols: (offered) => (offered.has('second') ? 'second' : false),
    });
    sockets.on('connection', (client, request) => {
        client.send(JSON.stringify({ url: request.url, origin: request.headers.origin, host: request.headers.host, cookie: request.headers.cookie }));
        client.on('message', (data, isBinary) => {
            if (String(data) === 'close') client.close(4001, 'as asked');
            else if (String(data) === 'later') setTimeout(() => client.send('now'), Number(process.env.IDLE_MS));
            else client.send(data, { binary: isBinary });
        });
    });
    return server;
}

/** `/blocks?N` is N MiB, each of which begins with its number; its length is not told beforehand with `/chunked?N`. */
function blocks() {
    return createServer((request, response) => {
        const { pathname, search } = new URL(request.url, 'http://localhost');
        if (pathname === '/') return page(response);
        const count = Number(search.slice(1));
        const head = { 'Content-Type': 'application/octet-stream' };
        if (pathname === '/blocks') head['Content-Length'] = count * BLOCK_BYTES;
        response.writeHead(200, head);
        let sent = 0;
        const more = () => {
            while (sent < count) {
                const block = Buffer.alloc(BLOCK_BYTES, sent % 251);
                block.writeUInt32BE(sent++);
                if (!response.write(block)) return response.once('drain', more);
            }
            return response.end();
        };
        return more();
    });
}

const server = { events, socket, blocks }[process.argv[2]]();
server.listen(PORT, 'localhost');
