// A real atolld, as its own child, with a data directory of its own.
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { spawnTied } from './child.mjs';

const START_DEADLINE_MS = 60_000;

/** A folder that is world-readable, as the sandboxes of a server that is root need it. The caller removes it. */
export function makeFolder() {
    const folder = mkdtempSync(path.join(tmpdir(), 'atoll-node-'));
    chmodSync(folder, 0o755);
    return folder;
}

/** Runs atolld until it serves. Rejects, with what it printed, if it does not. */
async function launch(args) {
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
            fail(new Error(`atolld ended with ${code}: ${log}`));
        });
    });
    const end = (signal) => {
        child.kill(signal);
        return gone;
    };
    return { log, end };
}

/**
 * Starts atolld, which serves on a free port of the loopback and on what `flags` add. `prepare(folder)` may put files into
 * its folder first and return more flags. Rejects, with what it printed, if it does not serve.
 */
export async function startServer({ flags = [], prepare = () => [] } = {}) {
    const folder = makeFolder();
    const remove = () => rmSync(folder, { recursive: true, force: true });
    const data = path.join(folder, 'data');
    const rest = ['--data-dir', data, ...prepare(folder), ...flags];
    let running = await launch(['--listen', '127.0.0.1:0', ...rest]).catch((error) => {
        remove();
        throw error;
    });
    const address = /serves on http:\/\/([0-9.]+:\d+)\n/.exec(running.log)[1];
    return {
        folder,
        address,
        key: readFileSync(path.join(data, 'api-key'), 'utf8').trim(),
        consoleUrl: /console +(\S+)/.exec(running.log)?.[1],
        /** Kills it with SIGKILL and waits for that. */
        kill: () => running.end('SIGKILL'),
        /** Starts it again, after kill(), with the same address and data. */
        async startAgain() {
            running = await launch(['--listen', address, ...rest]);
        },
        /** Asks it to end and waits for that; again is nothing. */
        async stop() {
            await running.end('SIGTERM');
            remove();
        },
    };
}
