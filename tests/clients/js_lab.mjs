// The tools of the tests of clients/js: a server, the client, waiting for what an iteration brings.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';

import { Atoll } from '../../clients/js/src/index.js';

const require = createRequire(path.join(process.env.ATOLL_CLIENT_MODULES, 'package.json'));
const undici = require('undici');

/** WebSocket constructors: Node 18 has none of its own. */
export const SOCKETS = { ws: require('ws').WebSocket, "Node's": globalThis.WebSocket ?? undici.WebSocket };

/**
 * A WebSocket constructor without a network, so that no deadline depends on the machine. `onSocket(socket, url, number)` is called for each
 * made, the first being 1; `socket.open()` opens it, `socket.tell(data)` sends it a frame (an object: as JSON), and `socket.onsent(data)`
 * gets what the client sends.
 */
export function fakeSockets(onSocket) {
    let made = 0;
    return class {
        readyState = 0;
        onsent = () => {};

        constructor(url) {
            const number = ++made;
            queueMicrotask(() => onSocket(this, new URL(url), number));
        }
        open() {
            this.readyState = 1;
            this.onopen();
        }
        tell(data) {
            this.onmessage({ data: data instanceof ArrayBuffer ? data : JSON.stringify(data) });
        }
        send(data) {
            queueMicrotask(() => this.onsent(data));
        }
        close() {
            this.readyState = 3;
        }
    };
}

/** A command that says `line 1`, and so on to `line count`, slowly. */
export const linesCommand = (count) => `for i in $(seq ${count}); do echo line $i; sleep 0.02; done`;

/** A client with the server's key; `address` may be that of a proxy. */
export function keyed(server, { address = server.address, ...options } = {}) {
    return new Atoll({ baseUrl: `http://${address}`, apiKey: server.key, WebSocket: SOCKETS.ws, ...options });
}

/** A client as a page has it, with tokens that a backend makes. `asked` has what getToken was asked for; onAsked() sees it, too. */
export function tokened(server, { address = server.address, ttlSeconds = 300, scope = 'chat', onAsked = () => {}, ...options } = {}) {
    const backend = keyed(server);
    const asked = [];
    const getToken = (wanted) => {
        asked.push(wanted);
        onAsked(asked);
        return backend.conversations.tokens.create(wanted.conversationId, { scope, ttlSeconds });
    };
    const atoll = new Atoll({ baseUrl: `http://${address}`, getToken, WebSocket: SOCKETS.ws, ...options });
    return { atoll, asked };
}

/** Events of an iteration up to the one that `isLast` is true of, with it. */
export async function until(iteration, isLast, onEvent = () => {}) {
    const events = [];
    for await (const event of iteration) {
        events.push(event);
        await onEvent(event, events);
        if (isLast(event)) break;
    }
    return events;
}

export const isDone = (event) => event.type === 'done';
export const outputOf = (events) => events.map((event) => (event.type === 'text_delta' ? event.data.delta : '')).join('');

/** Every event of the log once and in order, from `first` to the last one given. */
export function assertOnce(events, first = 1) {
    assert.deepEqual(events.map(({ seq }) => seq), events.map((_, i) => first + i));
}

/** Resolves with the error that a promise was rejected with. */
export const errorOf = (promise) => promise.then(() => assert.fail('it was not rejected'), (error) => error);

/** Stands in for a browser that tells when it is online again: run(comeOnline). */
export async function asBrowser(run) {
    const window = new EventTarget();
    const names = ['addEventListener', 'removeEventListener'];
    for (const name of names) globalThis[name] = window[name].bind(window);
    try {
        await run(() => window.dispatchEvent(new Event('online')));
    } finally {
        for (const name of names) delete globalThis[name];
    }
}
