// The tools of all client tests: a server, nginx before it, conversations made through REST, and events as one client saw
// them.
import assert from 'node:assert/strict';

import { startProxy } from '../node_support/proxy.mjs';
import { startServer } from '../node_support/server.mjs';
import { startNginx } from './nginx.mjs';

const DEADLINE_MS = 60_000;

/** A way to a server: `address` is "host:port". */
class Route {
    constructor(name, server, address, tls) {
        Object.assign(this, { name, server, address, tls });
    }
    get http() {
        return `${this.tls ? 'https' : 'http'}://${this.address}`;
    }
    get ws() {
        return `${this.tls ? 'wss' : 'ws'}://${this.address}`;
    }
    /** This route with a proxy between client and the next hop; stop it. */
    async withProxy() {
        const proxy = await startProxy(this.address);
        return { proxy, route: this.to(proxy.address) };
    }
    /** This route with another first hop. */
    to(address) {
        return new Route(this.name, this.server, address, this.tls);
    }
}

/** A server and both ways to it, `direct` and `nginx`; `edit` may change nginx's configuration. */
export async function startPlace({ flags = [], prepare, edit } = {}) {
    const server = await startServer({ flags, prepare });
    // nginx's own requests to the server are recorded, too.
    const behind = await startProxy(server.address);
    const nginx = await startNginx(behind.address, edit).catch(async (error) => {
        await behind.stop();
        await server.stop();
        throw error;
    });
    const direct = new Route('directly', server, server.address, false);
    const proxied = new Route('through nginx', server, nginx.address, true);
    return {
        server,
        nginx,
        behind,
        direct,
        proxied,
        routes: [direct, proxied],
        async stop() {
            await nginx.stop();
            await behind.stop();
            await server.stop();
        },
    };
}

/** A REST call with the server's key; its JSON. Throws if the status is not `status`. */
export async function call(route, status, method, path, body) {
    const headers = { Authorization: `Bearer ${route.server.key}` };
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    const response = await fetch(`${route.http}${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    assert.equal(response.status, status, `${method} ${path}: ${text}`);
    return text === '' ? null : JSON.parse(text);
}

/** A new conversation: its `path` below a route, and a `token` for its streams. */
export async function createConversation(route, { agent = 'shell', scope = 'chat' } = {}) {
    const { id } = await call(route, 201, 'POST', '/v1/conversations', { agent });
    const path = `/v1/conversations/${id}`;
    const { token } = await call(route, 201, 'POST', `${path}/tokens`, { scope });
    return { id, path, token };
}

export const removeConversation = (route, conversation) => call(route, 204, 'DELETE', conversation.path);

/** The events of a stream: `list` has them with the time of their arrival, and until() waits for more. */
export class Events {
    list = [];
    answers = [];
    #looks = new Set();

    add(event) {
        event.arrived = performance.now();
        (event.type === 'rejected' || event.type === 'accepted' ? this.answers : this.list).push(event);
        this.changed();
    }
    get rejected() {
        return this.answers.filter((frame) => frame.type === 'rejected');
    }
    changed() {
        for (const look of [...this.#looks]) look();
    }
    /** Resolves with what `find(this)` returns, once that is true. */
    until(what, find) {
        return new Promise((done, fail) => {
            const look = () => {
                const found = find(this);
                if (!found) return;
                clearTimeout(late);
                this.#looks.delete(look);
                done(found);
            };
            const late = setTimeout(() => {
                this.#looks.delete(look);
                fail(new Error(`never came: ${what}; came: ${JSON.stringify(this.list).slice(-2000)}`));
            }, DEADLINE_MS);
            this.#looks.add(look);
            look();
        });
    }
    /** The first event of the `turn`th turn's end. */
    turnEnd(turn = 1) {
        return this.until(`the end of turn ${turn}`, () => this.list.filter((event) => event.type === 'done')[turn - 1]);
    }
    /** The event whose text holds `text`, or after which the texts of all events do. */
    text(text) {
        return this.until(`the text ${JSON.stringify(text)}`, () => {
            let output = '';
            return this.list.find((event) => (output += event.data?.delta ?? '').includes(text));
        });
    }
    get last() {
        return this.list.at(-1)?.seq ?? 0;
    }
    get output() {
        return this.list.map((event) => (event.type === 'text_delta' ? event.data.delta : '')).join('');
    }
}

/** All events of the server's log after `first` - 1, as JSON. */
async function logged(route, conversation, first) {
    const all = [];
    for (let page, next = first - 1; page === undefined || page.events.length > 0; next = page.next) {
        page = await call(route, 200, 'GET', `${conversation.path}/events?after=${next}&limit=10000`);
        all.push(...page.events);
    }
    return all.map((event) => JSON.stringify(event));
}

/** Every event once and in order, from `first` on, and as the server's log has them; so are the ids of an EventSource. */
export async function assertComplete(route, conversation, list, first = 1) {
    assert.deepEqual(
        list.map((event) => event.seq),
        Array.from({ length: list.length }, (_, i) => first + i),
    );
    for (const { seq, id } of list) assert.ok(id === undefined || id.startsWith(`${seq}-`));
    const log = await logged(route, conversation, first);
    const other = list.findIndex(({ arrived, id, ...event }, i) => JSON.stringify(event) !== log[i]);
    assert.equal(other, -1, `event ${first + other} is not that of the log`);
}

/**
 * A command that says `line 1`, and `line 2` only once it is interrupted: who interrupts it after having seen the first line
 * knows that no one on the way had kept it back. Ends with status 3.
 */
export const TWO_LINES = `trap 'trap "" INT; echo line 2; exit 3' INT; echo line 1; sleep 1000 & wait`;

/** A command that says `line 1`, `line 2` and so on until it is interrupted. */
export const LINES = 'while :; do echo line $((++i)); sleep 0.03; done';

/** Throws unless `output` is what LINES said, as far as it came. */
export function assertLines(output) {
    assert.equal(output, lines(1, output.split('\n').length - 1));
}

export const lines = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => `line ${from + i}\n`).join('');
