// A real atolld, as its own child, with a data directory of its own.
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { spawnTied } from './child.mjs';

const START_DEADLINE_MS = 20_000;

/** A folder that is world-readable, as the sandboxes of a server that is root need it. The caller removes it. */
export function makeFolder() {
    const folder = mkdtempSync(path.join(tmpdir(), 'atoll-node-'));
    chmodSync(folder, 0o755);
    return folder;
}

/**
 * Starts atolld, which serves on a free port of the loopback and on what `flags` add. `prepare(folder)` may put files into
 * its folder first and return more flags. Rejects, with what it printed, if it does not serve.
 */
export async function startServer({ flags = [], prepare = () => [] } = {}) {
    const folder = makeFolder();
    const data = path.join(folder, 'data');
    const args = ['--listen', '127.0.0.1:0', '--data-dir', data, ...prepare(folder), ...flags];
    const env = { PATH: process.env.PATH, LANG: 'C.UTF-8' };
    const child = spawnTied(path.join(process.env.ATOLL_BIN, 'atolld'), args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const gone = new Promise((done) => child.once('exit', done));
    let log = '';
    await new Promise((done, fail) => {
        const late = setTimeout(() => fail(new Error(`atolld does not serve: ${log}`)), START_DEADLINE_MS);
        const read = (text) => {
            log += text;
            if (!log.includes('Ctrl-C ends the server')) return;
            clearTimeout(late);
            done();
        };
        child.stdout.setEncoding('utf8').on('data', read);
        child.stderr.setEncoding('utf8').on('data', read);
        child.on('exit', (code) => {
            clearTimeout(late);
            rmSync(folder, { recursive: true, force: true });
            fail(new Error(`atolld ended with ${code}: ${log}`));
        });
    });
    return {
        folder,
        address: /serves on http:\/\/([0-9.]+:\d+)\n/.exec(log)[1],
        key: readFileSync(path.join(data, 'api-key'), 'utf8').trim(),
        consoleUrl: /console +(\S+)/.exec(log)?.[1],
        /** Asks it to end and waits for that; again is nothing. */
        async stop() {
            child.kill('SIGTERM');
            await gone;
            rmSync(folder, { recursive: true, force: true });
        },
    };
}
