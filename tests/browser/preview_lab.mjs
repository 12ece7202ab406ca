// Servers inside sandboxes without a network, and what the tests of their previews ask of them.
import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { createServer } from 'node:http';
import net from 'node:net';

const NODE = process.env.ATOLL_INNER_NODE;
const SITE = process.env.ATOLL_PREVIEW_SITE;

/** For a domain that is not localhost the server tells an HTTPS address, of a proxy that is not here: the server's own port is taken instead. */
const reachableAt = (port) => (url) => (url?.startsWith('https://') ? `http://${new URL(url).hostname}:${port}/` : url);

export function previewApi(server) {
    async function call(method, path, body, headers = { 'Content-Type': 'application/json' }) {
        const isStream = body?.pipe !== undefined;
        const options = { method, headers: { Authorization: `Bearer ${server.key}`, ...headers }, body: isStream || typeof body === 'string' ? body : body && JSON.stringify(body) };
        if (isStream) options.duplex = 'half';
        const response = await fetch(`http://${server.address}${path}`, options);
        const text = await response.text();
        assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
        return text === '' ? null : JSON.parse(text);
    }
    const inner = (id, rest) => `/v1/sandboxes/${id}/${rest}`;
    const reachable = reachableAt(server.address.split(':').at(-1));
    return {
        call,
        /** A sandbox of its own kind (network `none`), perhaps with a conversation; `url` is its preview's. */
        async sandbox(wanted = {}) {
            const { id, sandboxPublicUrl } = await call('POST', '/v1/sandboxes', wanted);
            return { id, url: reachable(sandboxPublicUrl) };
        },
        async conversation(wanted = {}) {
            const { id, sandboxId, sandboxPublicUrl } = await call('POST', '/v1/conversations', { agent: 'shell', ...wanted });
            return { id: sandboxId, url: reachable(sandboxPublicUrl), conversation: id };
        },
        /** Unpacks a site with its packages into the workspace. */
        unpackSite: ({ id }, archive = SITE) => call('PUT', inner(id, 'archive'), createReadStream(archive), { 'Content-Type': 'application/x-tar' }),
        start: ({ id }, command, more = {}) => call('POST', inner(id, 'processes'), { command, ...more }),
        startVite(sandbox, more) {
            return this.start(sandbox, `exec ${NODE} node_modules/vite/bin/vite.js`, more);
        },
        startNode(sandbox, name, more) {
            return this.start(sandbox, `exec ${NODE} servers.mjs ${name}`, more);
        },
        /** The end of what the sandbox printed so far, for a test that failed. */
        logs: ({ id }) => call('GET', inner(id, 'logs')).then((all) => JSON.stringify(all).slice(-2000)),
        put: ({ id }, path, text) => call('PUT', inner(id, `files/${path}`), text, { 'Content-Type': 'application/octet-stream' }),
        async replace({ id }, file_path, old_string, new_string) {
            const result = await call('POST', '/v1/tools/replace', { sandboxId: id, args: { file_path, old_string, new_string } });
            assert.ok(result.success, JSON.stringify(result));
        },
    };
}

/** Resolves to the error's code: nothing on this host may listen where the dev server listens inside. */
export function hostPort(port) {
    return new Promise((done) => {
        const socket = net.connect({ host: '127.0.0.1', port });
        socket.once('connect', () => {
            socket.destroy();
            done('connected');
        });
        socket.once('error', ({ code }) => done(code));
    });
}

/** A page on 127.0.0.1, another site than any preview, with `url` in an iframe. */
export async function startFramingSite(url) {
    const text = `<!doctype html><title>outer</title><iframe id="preview" src="${url}" width="600" height="300"></iframe>`;
    const server = createServer((request, response) => response.setHeader('Content-Type', 'text/html').end(request.url === '/' ? text : ''));
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    return {
        url: `http://127.0.0.1:${server.address().port}/`,
        async stop() {
            server.closeAllConnections?.();
            await new Promise((done) => server.close(done));
        },
    };
}
