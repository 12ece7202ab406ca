// The behaviour of a proxy: buffering, Unix sockets, names, connections that are used again.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import https from 'node:https';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';

import { curl, curlEvents, json } from './curl.mjs';
import { followEvents } from './event_source.mjs';
import { assertComplete, call, createConversation, lines, startPlace, TWO_LINES } from './lab.mjs';
import { replaceOnce, startNginx, WORKER_GROUP } from './nginx.mjs';
import { CLIENTS, openStream, ws } from './sockets.mjs';

const { Client } = createRequire(path.join(process.env.ATOLL_CLIENT_MODULES, 'package.json'))('undici');

/** Runs with a place that is gone afterwards. */
async function withPlace(options, run) {
    const place = await startPlace(options);
    try {
        return await run(place);
    } finally {
        await place.stop();
    }
}

const add = (line) => (text) => replaceOnce(text, 'proxy_pass http://atoll;', `proxy_pass http://atoll; ${line}`);

/** True if the first line of a turn came through nginx before its second had left the server. */
async function arrivesInTime(place) {
    const conversation = await createConversation(place.direct);
    const direct = await openStream(ws, place.direct, conversation);
    const command = json({ content: 'echo line 1; sleep 0.5; echo line 2; sleep 0.5' });
    const turn = curlEvents(place.proxied, `${conversation.path}/messages`, command);
    const second = await direct.events.text('line 2\n');
    const first = await turn.events.text('line 1\n');
    assert.equal(await turn.ended, 0);
    direct.end();
    await direct.closed;
    return first.arrived < second.arrived;
}

test("nginx's buffering is on and does not hold events back, because the server says so", async () => {
    // nginx passes chunks on anyway. A response without chunks, as to an HTTP/1.0 client, waits for a full buffer.
    const old = (text) => replaceOnce(text, 'proxy_http_version 1.1;', 'proxy_http_version 1.0;');
    // The control: it waits if it ignores the server's field.
    const deaf = (text) => add('proxy_ignore_headers X-Accel-Buffering;')(old(text));
    const tries = [undefined, old, deaf].map((edit) => withPlace({ edit }, arrivesInTime));
    assert.deepEqual(await Promise.all(tries), [true, true, false]);
});

test('nginx reaches a Unix socket that was given to its group, and every client works through it', async () => {
    const prepare = (folder) => ['--listen', `unix:${path.join(folder, 'http.sock')}`, '--unix-socket-group', WORKER_GROUP];
    await withPlace({ prepare }, async (place) => {
        const nginx = await startNginx(`unix:${path.join(place.server.folder, 'http.sock')}`);
        try {
            const route = place.proxied.to(nginx.address);
            for (const client of CLIENTS) {
                const conversation = await createConversation(route);
                const socket = await openStream(client, route, conversation);
                const follower = followEvents(route, conversation);
                socket.message(TWO_LINES);
                await Promise.all([socket.events, follower.events].map((events) => events.text('line 1\n')));
                socket.interrupt();
                await Promise.all([socket.events, follower.events].map((events) => events.turnEnd()));
                assert.equal(socket.events.output, lines(1, 2));
                await assertComplete(route, conversation, socket.events.list);
                await assertComplete(route, conversation, follower.events.list);
                follower.close();
                socket.end();
                await socket.closed;
            }
        } finally {
            await nginx.stop();
        }
    });
});

test("the public name has to be allowed, and then its own pages may open WebSockets, others' may not", async () => {
    const named = (place) => ['--connect-to', `atoll.example::127.0.0.1:${place.nginx.port}`];
    const ask = (place) => {
        const route = place.proxied.to('atoll.example');
        return curl(route, '/v1/conversations', named(place));
    };
    await withPlace({}, async (place) => {
        const refused = await ask(place);
        assert.equal(JSON.parse(refused.body).code, 'host_not_allowed');
    });
    await withPlace({ flags: ['--allowed-host', 'atoll.example'] }, async (place) => {
        assert.equal((await ask(place)).status, 200);
        const conversation = await createConversation(place.direct);
        const open = (origin) => openStream(ws, place.proxied, conversation, { headers: { Host: 'atoll.example' }, origin });
        const own = await open('https://atoll.example');
        own.end();
        await own.closed;
        const other = await (await open('https://evil.example')).closed;
        assert.deepEqual([other.code, JSON.parse(other.reason).code], [4403, 'origin_not_allowed']);
    });
});

test('a preview is shown below its domain, and its WebSockets and answers come as from the dev server', async () => {
    const flags = ['--preview-domain', 'preview.example', '--trusted-proxy', '127.0.0.1'];
    await withPlace({ flags }, async (place) => {
        const sandbox = await call(place.direct, 201, 'POST', '/v1/sandboxes', {});
        const host = `preview-${sandbox.id}.preview.example`;
        assert.equal(sandbox.sandboxPublicUrl, `https://${host}/`);
        const route = place.proxied.to(host);
        const ask = (...more) => curl(route, '/', ['--connect-to', `${host}::127.0.0.1:${place.nginx.port}`, ...more], { key: null });
        const nobody = await ask();
        assert.deepEqual([nobody.status, JSON.parse(nobody.body).code], [503, 'no_listener']);
        // Changes to the protocol that the client wants, and tells of the request otherwise.
        const program = `import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers.get("Upgrade")
        said = " ".join(self.headers.get(name, "-") for name in ("Host", "X-Forwarded-Host", "X-Forwarded-Proto"))
        self.send_response(101 if wanted else 200)
        if wanted:
            self.send_header("Connection", "upgrade")
            self.send_header("Upgrade", wanted)
        self.end_headers()
        self.wfile.write(said.encode())
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", 5173), Handler).serve_forever()`;
        await call(place.direct, 201, 'POST', `/v1/sandboxes/${sandbox.id}/processes`, { argv: ['python3', '-c', program] });
        let shown;
        do shown = await ask();
        while (shown.status === 503);
        assert.deepEqual([shown.status, shown.body], [200, `localhost:5173 ${host} https`]);
        const switched = await ask('--http1.1', '-i', '-H', 'Connection: Upgrade', '-H', 'Upgrade: private-protocol');
        assert.equal(switched.status, 101, switched.body);
        assert.match(switched.body, /upgrade: private-protocol\r\n/i);
        assert.equal((await call(place.proxied, 200, 'GET', `/v1/sandboxes/${sandbox.id}`)).id, sandbox.id);
    });
});

test('who has no key is refused before there is a body, so nginx keeps none', async () => {
    await withPlace({}, async ({ proxied }) => {
        const request = https.request(`${proxied.http}/v1/conversations`, { method: 'POST', headers: { 'Content-Type': 'application/json' } });
        request.on('error', () => {});
        // It never ends.
        request.write('{"agent":');
        try {
            const [response] = await once(request, 'response', { signal: AbortSignal.timeout(60_000) });
            assert.equal(response.statusCode, 401);
        } finally {
            request.destroy();
        }
    });
});

test("a client's own X-Forwarded fields do not reach the server", async () => {
    await withPlace({ flags: ['--trusted-proxy', '127.0.0.1'] }, async (place) => {
        const own = ['For: 192.0.2.7', 'Host: evil.example', 'Proto: ftp'].flatMap((field) => ['-H', `X-Forwarded-${field}`]);
        assert.equal((await curl(place.proxied, '/healthz', own)).status, 200);
        const fields = place.behind.seen.up.toLowerCase().match(/^x-forwarded-.*$/gm);
        assert.deepEqual(fields.sort(), ['x-forwarded-for: 127.0.0.1', 'x-forwarded-proto: https']);
    });
});

test('requests through nginx share a few connections to the server, and WebSockets do not spoil them', async () => {
    await withPlace({}, async (place) => {
        const many = await curl(place.proxied, '/v1/conversations?limit=[1-200]');
        assert.deepEqual([many.statuses.length, new Set(many.statuses)], [200, new Set([200])]);
        assert.equal(place.behind.seen.opened.length, 1);
        const conversation = await createConversation(place.proxied);
        const socket = await openStream(ws, place.proxied, conversation);
        await call(place.proxied, 200, 'GET', conversation.path);
        assert.ok(place.behind.seen.opened.length <= 3);
        socket.end();
        await socket.closed;
    });
});

test('pipelined requests are answered in their order, directly and through nginx', async () => {
    await withPlace({}, async (place) => {
        for (const route of place.routes) {
            const connect = route.tls ? { ca: readFileSync(process.env.NODE_EXTRA_CA_CERTS) } : {};
            const client = new Client(route.http, { pipelining: 20, connect });
            const headers = { 'X-API-Key': place.server.key };
            const answers = Array.from({ length: 200 }, async (_, i) => {
                const { statusCode, headers: got, body } = await client.request({
                    method: 'GET',
                    path: `/v1/conversations?limit=${i + 1}`,
                    headers: { ...headers, 'X-Request-Id': `number-${i}` },
                });
                await body.dump();
                return [statusCode, got['x-request-id']];
            });
            assert.deepEqual(await Promise.all(answers), Array.from({ length: 200 }, (_, i) => [200, `number-${i}`]));
            await client.close();
        }
    });
});

test('nginx passes bodies on as they come, and one that is too long is refused in its midst', async () => {
    await withPlace({}, async (place) => {
        const route = place.proxied;
        const { path: conversation } = await createConversation(route, { agent: 'echo' });
        const chunked = ['-H', 'Transfer-Encoding: chunked', '-H', 'Content-Type: application/json', '--http1.1', '-X', 'POST', '-T', '-'];
        const post = (content) => curl(route, `${conversation}/messages`, chunked, { input: JSON.stringify({ content }) });
        assert.equal((await post('in chunks '.repeat(50_000))).status, 202);
        assert.match(place.behind.seen.up, /transfer-encoding: chunked\r\n/i);
        const refused = await post('x'.repeat(3_000_000));
        assert.equal(refused.status, 413);
        assert.equal(JSON.parse(refused.body).code, 'body_too_large');
        // Nothing of it was taken for a request.
        assert.equal((await curl(route, '/healthz?n=[1-20]')).statuses.filter((status) => status === 200).length, 20);
    });
});

test('what the manual shows of the configuration is in it', () => {
    const read = (name) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
    const [, shown] = /```nginx\n(.*?)```/s.exec(read('docs/operations/tls-and-proxy.md'));
    const whole = read('scripts/nginx/atoll.conf').split('\n');
    for (const line of shown.split('\n').slice(0, -1)) assert.ok(whole.includes(line), line);
});
