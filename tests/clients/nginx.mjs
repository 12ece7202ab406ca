// nginx as a child of the test, with the files of scripts/nginx: those very files, but for the lines an operator adapts too.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { spawnTied } from '../node_support/child.mjs';
import { makeFolder } from '../node_support/server.mjs';

const EXAMPLES = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../scripts/nginx');
const START_DEADLINE_MS = 60_000;
const ATTEMPTS = 5;

/** `text` with the one place where `from` is made `to`; throws if there is none, or more. */
export function replaceOnce(text, from, to) {
    const parts = text.split(from);
    if (parts.length !== 2) throw new Error(`the configuration has "${from}" ${parts.length - 1} times, not once`);
    return parts.join(to);
}

function adapted(name, folder, port, domain, log) {
    const modules = process.env.ATOLL_CLIENT_MODULES;
    let text = readFileSync(path.join(EXAMPLES, name), 'utf8');
    text = replaceOnce(text, 'listen 443 ssl', `listen 127.0.0.1:${port} ssl`);
    text = replaceOnce(text, `/etc/ssl/${domain}.pem`, path.join(modules, 'certificate.pem'));
    text = replaceOnce(text, `/etc/ssl/${domain}.key`, path.join(modules, 'key.pem'));
    return replaceOnce(text, `/var/log/nginx/${log}`, path.join(folder, 'access.log'));
}

function adaptedApi(folder, port, upstream) {
    const text = adapted('atoll.conf', folder, port, 'atoll.example', 'atoll.log');
    return replaceOnce(text, 'server 127.0.0.1:4100;', `server ${upstream};`);
}

// The user of the workers in Debian: a master that is root has workers that are not.
const WORKER = 'www-data';
const isRoot = process.getuid() === 0;

/** The group of what connects to the server. */
export const WORKER_GROUP = isRoot ? WORKER : execFileSync('id', ['-gn'], { encoding: 'utf8' }).trim();

const main = (folder) => `${isRoot ? `user ${WORKER};\n` : ''}daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr notice;
events { worker_connections 512; }
http {
${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `    ${name}_temp_path ${folder}/temp/${name};`).join('\n')}
    include ${folder}/atoll.conf;
    include ${folder}/previews.conf;
}
`;

async function freePort() {
    const server = net.createServer();
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address();
    await new Promise((done) => server.close(done));
    return port;
}

/** True once it serves; false if it ended, `log.text` says why. */
function serves(child, log) {
    return new Promise((done, fail) => {
        const late = setTimeout(() => fail(new Error(`nginx does not serve: ${log.text}`)), START_DEADLINE_MS);
        const settle = (result) => {
            clearTimeout(late);
            done(result);
        };
        child.stderr.setEncoding('utf8').on('data', (text) => {
            log.text += text;
            // Its sockets listen before there is a worker.
            if (log.text.includes('start worker process ')) settle(true);
        });
        child.once('close', () => settle(false));
    });
}

/** Starts nginx before `upstream` ("host:port" or "unix:PATH"); `edit` may change the adapted atoll.conf. */
export async function startNginx(upstream, edit = (text) => text) {
    for (let attempt = 1; ; ++attempt) {
        const folder = makeFolder();
        const log = { text: '' };
        const port = await freePort();
        mkdirSync(path.join(folder, 'temp'));
        writeFileSync(path.join(folder, 'atoll.conf'), edit(adaptedApi(folder, port, upstream)));
        writeFileSync(path.join(folder, 'previews.conf'), adapted('previews.conf', folder, port, 'preview.example', 'atoll-previews.log'));
        writeFileSync(path.join(folder, 'nginx.conf'), main(folder));
        const args = ['-e', 'stderr', '-p', folder, '-c', path.join(folder, 'nginx.conf')];
        const child = spawnTied('nginx', args, { env: { PATH: process.env.PATH }, stdio: ['ignore', 'ignore', 'pipe'] });
        const gone = new Promise((done) => child.once('exit', done));
        const stop = async () => {
            child.kill('SIGTERM');
            await gone;
            rmSync(folder, { recursive: true, force: true });
        };
        if (await serves(child, log)) {
            return { address: `127.0.0.1:${port}`, port, accessLog: () => readFileSync(path.join(folder, 'access.log'), 'utf8'), log: () => log.text, stop };
        }
        await stop();
        // Another process may have taken the port meanwhile.
        if (!log.text.includes('Address already in use') || attempt === ATTEMPTS) throw new Error(`nginx ended: ${log.text}`);
    }
}
