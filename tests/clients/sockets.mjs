// WebSocket clients behind one face. open(url, options) resolves with a socket, or rejects with a Refused.
// Options: headers, protocols.
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { spawnTied } from '../node_support/child.mjs';
import { Events } from './lab.mjs';

const require = createRequire(path.join(process.env.ATOLL_CLIENT_MODULES, 'package.json'));
const { WebSocket: WsSocket } = require('ws');
const undici = require('undici');
const PYTHON_CLIENT = path.join(path.dirname(fileURLToPath(import.meta.url)), 'client.py');

/** The server did not open a WebSocket: `status` and `body` where the client lets one see them. */
export class Refused extends Error {
    constructor(status, body) {
        super(`refused with ${status}`);
        Object.assign(this, { status, body });
    }
}

/** The members of every client's socket: `events`, `protocol`, `extensions`, send(), end(), how it ended. */
class OpenSocket {
    events = new Events();
    #end = null;
    close(end) {
        this.#end = end;
        this.events.changed();
    }
    /** How it ended, once it has. */
    get closed() {
        return this.events.until('the end of the WebSocket', () => this.#end);
    }
    get isClosed() {
        return this.#end !== null;
    }
    take(text) {
        this.events.add(JSON.parse(text));
    }
    sendJson(value) {
        return this.send(JSON.stringify(value));
    }
    message(content) {
        return this.sendJson({ type: 'message', content });
    }
    interrupt() {
        return this.sendJson({ type: 'interrupt' });
    }
}

export const ws = {
    name: 'ws',
    tellsStatus: true,
    headers: true,
    fragments: true,
    insistsOnProtocol: true,
    open(url, { headers, protocols = [], ...more } = {}) {
        return new Promise((done, fail) => {
            const inner = new WsSocket(url, protocols, { headers, ...more });
            const socket = new OpenSocket();
            socket.pings = 0;
            inner.on('open', () => {
                socket.protocol = inner.protocol;
                socket.extensions = inner.extensions;
                done(socket);
            });
            inner.on('message', (data) => socket.take(data.toString('utf8')));
            inner.on('ping', () => {
                ++socket.pings;
                socket.events.changed();
            });
            inner.on('close', (code, reason) => socket.close({ code, reason: reason.toString('utf8') }));
            inner.on('error', (error) => fail(new Refused(undefined, error.message)));
            inner.on('unexpected-response', (request, response) => {
                let body = '';
                response.setEncoding('utf8').on('data', (text) => (body += text));
                response.on('end', () => fail(new Refused(response.statusCode, body)));
                request.on('error', () => {});
            });
            socket.send = (text) => inner.send(text);
            socket.sendParts = (parts) => parts.forEach((part, i) => inner.send(part, { fin: i === parts.length - 1, binary: false }));
            socket.sendBytes = (bytes) => inner.send(Buffer.from(bytes));
            socket.end = () => inner.close(1000);
        });
    },
};

/** The WebSocket of browsers' specification, as Node has it. */
const standard = (name, Implementation) => ({
    name,
    open(url, { protocols = [], headers } = {}) {
        return new Promise((done, fail) => {
            const inner = new Implementation(url, { protocols, headers });
            const socket = new OpenSocket();
            inner.addEventListener('open', () => {
                socket.protocol = inner.protocol;
                socket.extensions = inner.extensions;
                done(socket);
            });
            inner.addEventListener('message', ({ data }) => socket.take(data));
            inner.addEventListener('error', () => fail(new Refused(undefined, '')));
            inner.addEventListener('close', ({ code, reason }) => socket.close({ code, reason }));
            socket.send = (text) => inner.send(text);
            socket.sendBytes = (bytes) => inner.send(Uint8Array.from(bytes));
            socket.end = () => inner.close(1000);
        });
    },
});

/** Node 18 has none of its own; undici's is what later ones have. */
export const nodes = { ...standard("Node's WebSocket", globalThis.WebSocket ?? undici.WebSocket), insistsOnProtocol: true };

/** Python's, in a process that is told what to do by JSON lines. */
export const python = {
    name: "Python's websockets",
    tellsStatus: true,
    headers: true,
    fragments: true,
    open(url, { headers = {}, protocols = [] } = {}) {
        return new Promise((done, fail) => {
            const env = { PATH: process.env.PATH, LANG: 'C.UTF-8', SSL_CERT_FILE: process.env.NODE_EXTRA_CA_CERTS };
            const child = spawnTied(process.env.ATOLL_PYTHON, [PYTHON_CLIENT], { env, stdio: ['pipe', 'pipe', 'inherit'] });
            const socket = new OpenSocket();
            const tell = (command) => child.stdin.write(`${JSON.stringify(command)}\n`);
            const on = {
                open({ protocol, extensions }) {
                    Object.assign(socket, { protocol, extensions });
                    done(socket);
                },
                refused: ({ status, body }) => fail(new Refused(status ?? undefined, body)),
                text: ({ data }) => socket.take(data),
                closed({ code, reason }) {
                    child.stdin.end();
                    socket.close({ code, reason });
                },
            };
            child.stdin.on('error', () => {});
            child.once('exit', () => fail(new Error('the Python client ended')));
            createInterface({ input: child.stdout }).on('line', (line) => {
                const said = JSON.parse(line);
                on[said.said](said);
            });
            socket.send = (text) => tell({ do: 'send', parts: [text] });
            socket.sendParts = (parts) => tell({ do: 'send', parts });
            socket.sendBytes = (bytes) => tell({ do: 'bytes', bytes });
            socket.end = () => tell({ do: 'close' });
            tell({ do: 'open', url, headers, protocols });
        });
    },
};

export const CLIENTS = [ws, nodes, python];

/** Opens the WebSocket of a conversation with its token. */
export function openStream(client, route, conversation, { after = 0, ...options } = {}) {
    return client.open(`${route.ws}${conversation.path}/ws?after=${after}&token=${conversation.token}`, options);
}
