// The document of a real server, and programs that read it.
import { execFile } from 'node:child_process';

import { startServer } from '../node_support/server.mjs';

const DEADLINE_MS = 60_000;

/** Where the packages are, with a node_modules below it. */
export const MODULES = process.env.ATOLL_OPENAPI_MODULES;

/** A server with its document, as anybody gets it. */
export async function startDescribed() {
    const server = await startServer({ flags: ['--log-level', 'warn'] });
    const response = await fetch(`http://${server.address}/openapi.json`);
    return { server, document: await response.json() };
}

/** Runs one of the packages' programs, or node itself, in their folder. */
export function runTool(name, args, env = {}) {
    return new Promise((done) => {
        const options = { cwd: MODULES, env: { ...process.env, ...env }, timeout: DEADLINE_MS };
        execFile(name, args, options, (error, stdout, stderr) => {
            done({ status: error === null ? 0 : (error.code ?? 'killed'), stdout, stderr, all: stdout + stderr });
        });
    });
}
