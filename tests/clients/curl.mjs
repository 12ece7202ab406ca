// curl as a child: single requests, and streams that are read while they come.
import { spawnTied } from '../node_support/child.mjs';
import { Events } from './lab.mjs';

const MARK = '\n--curl--';

function start(route, path, args, key) {
    const trust = route.tls ? ['--cacert', process.env.NODE_EXTRA_CA_CERTS] : [];
    const auth = key === null ? [] : ['-H', `Authorization: Bearer ${key ?? route.server.key}`];
    const all = ['-sSN', ...trust, ...auth, '-w', `${MARK}%{http_code} %{http_version} %{num_connects}\n`, ...args, `${route.http}${path}`];
    return spawnTied('curl', all, { env: { PATH: process.env.PATH, LANG: 'C.UTF-8' }, stdio: ['pipe', 'pipe', 'pipe'] });
}

/**
 * Sends a request with the server's key, or another `key`, or null for none; `input` is curl's stdin. Resolves with the exit
 * `code`, the last answer's `status`, `version` and `body`, all `connects`, and what curl said (`said`).
 */
export function curl(route, path, args = [], { key, input = '' } = {}) {
    const child = start(route, path, args, key);
    let out = '';
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (out += text));
    child.stderr.setEncoding('utf8').on('data', (text) => (said += text));
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    return new Promise((done) => {
        child.on('close', (code) => {
            const parts = out.split(MARK);
            const told = parts.slice(1).map((part) => part.split('\n')[0].split(' '));
            const [status, version] = told.at(-1) ?? [];
            const connects = told.reduce((sum, [, , count]) => sum + Number(count), 0);
            const statuses = told.map(([each]) => Number(each));
            done({ code, status: Number(status), version, connects, statuses, body: parts[0], said });
        });
    });
}

export const json = (value) => ['-H', 'Content-Type: application/json', '-d', JSON.stringify(value)];

/** A response of Server-Sent Events: `events` as they come, `ended` with curl's exit code, kill(). */
export function curlEvents(route, path, args = []) {
    const child = start(route, path, ['-H', 'Accept: text/event-stream', ...args]);
    const stream = { events: new Events(), comments: 0, kill: () => child.kill('SIGKILL') };
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (more) => {
        const blocks = (text + more).split('\n\n');
        text = blocks.pop();
        for (const block of blocks) {
            const fields = new Map(block.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]));
            if (fields.has('id')) stream.events.add({ ...JSON.parse(fields.get('data')), id: fields.get('id') });
        }
    });
    child.stderr.resume();
    child.stdin.end();
    stream.ended = new Promise((done) => child.on('close', done));
    return stream;
}
