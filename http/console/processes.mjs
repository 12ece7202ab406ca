// The shells that the console starts in a sandbox, over the wire. Those of other clients are left alone: the tag tells.
import { sandboxPathOf } from './api.mjs';

const TAG = 'console';
const TOKEN_SECONDS = 3600;
const ENV = {
    COLORTERM: 'truecolor',
    // The folder, in colour. A ~/.bashrc of the workspace may set another one.
    PS1: '\\[\\e[36m\\]\\w\\[\\e[0m\\] $ ',
    // There is no other way to give a shell aliases without a file. Its own programs do not get it.
    PROMPT_COMMAND: "alias ls='ls --color=auto' grep='grep --color=auto'; unset PROMPT_COMMAND",
};

export class Processes {
    #api;
    #base;
    #page;

    /** `page`: {location, WebSocket}. */
    constructor(api, sandboxId, page = globalThis) {
        this.#api = api;
        this.#base = sandboxPathOf(sandboxId);
        this.#page = page;
    }

    /** The newest shell of the console that still runs, as its id, or null. */
    async findShell() {
        const { processes } = await this.#api.json('GET', `${this.#base}/processes?tag=${TAG}`);
        return processes.filter(({ status }) => status === 'running').at(-1)?.processId ?? null;
    }

    /** Starts a shell on a terminal of this size; gives its id. */
    async startShell({ cols, rows }) {
        const body = { argv: ['bash', '-i'], env: ENV, pty: { cols, rows }, tag: TAG };
        return (await this.#api.json('POST', `${this.#base}/processes`, { body })).processId;
    }

    /** Ends it and what it started, as a terminal that is closed does. */
    hangUp(processId) {
        return this.#api.fetch('POST', `${this.#path(processId)}/signal`, { body: { signal: 'SIGHUP' } });
    }

    /** A WebSocket of the process, which is opening. Throws an error with `isFinal` where the process is gone. */
    async connect(processId, after) {
        let token;
        try {
            // A handshake that fails does not say why.
            await this.#api.json('GET', this.#path(processId));
            ({ token } = await this.#api.json('POST', `${this.#base}/tokens`, { body: { scope: 'terminal', ttlSeconds: TOKEN_SECONDS } }));
        } catch (error) {
            error.isFinal = [401, 404, 410].includes(error.status);
            if (error.status === 404) error.message = 'The shell ended with its sandbox or with the server. “New shell” starts another one.';
            throw error;
        }
        const { location, WebSocket: Socket } = this.#page;
        const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
        return new Socket(`${scheme}//${location.host}${this.#path(processId)}/ws?after=${after}&token=${encodeURIComponent(token)}`);
    }

    #path(processId) {
        return `${this.#base}/processes/${encodeURIComponent(processId)}`;
    }
}
