// Who the client is: an API key in a header, or tokens for one conversation or sandbox, which are renewed when they expire.
import { AtollError } from './errors.js';
import { abortable, throwIfAborted } from './waiting.js';

const OWN_TOKEN_SECONDS = 3600;
const OWNERS = { conversations: 'conversationId', sandboxes: 'sandboxId', executions: 'executionId' };

/** A part of the API that a token may open: `kind` is "conversations", "sandboxes" or "executions", `scope` what is done there. */
export function subject(kind, id, scope) {
    return { kind, id, scope };
}

export class Access {
    #apiKey;
    #getToken;
    #canRenew;
    #tokens = new Map();
    #asking = new Map();
    #make;

    /** `make(subject, seconds, signal)` asks the server for a token with the API key. */
    constructor({ apiKey, token, getToken }, make) {
        if ([apiKey, token ?? getToken].filter((each) => each !== undefined).length !== 1)
            throw new TypeError('give either apiKey, or token or getToken');
        this.#apiKey = apiKey;
        this.#make = make;
        this.#getToken = token === undefined ? getToken : () => token;
        this.#canRenew = token === undefined;
    }

    get hasKey() {
        return this.#apiKey !== undefined;
    }

    /** True if another token can be had after one that was refused. */
    canRenew(getToken) {
        return this.#canRenew || getToken !== undefined;
    }

    headers() {
        return this.hasKey ? { Authorization: `Bearer ${this.#apiKey}` } : {};
    }

    /** The token for a subject; `getToken` of a call goes before that of the client. Throws no_token, a passing error, where that fails. */
    async token(about, { getToken = this.#getToken, signal } = {}) {
        const name = nameOf(about);
        const kept = this.#tokens.get(name);
        if (kept !== undefined) return kept;
        throwIfAborted(signal);
        const asking = this.#asking.get(name) ?? this.#ask(name, about, getToken);
        ++asking.waiting;
        try {
            return await abortable(asking.token, signal);
        } finally {
            if (--asking.waiting === 0) asking.giveUp();
        }
    }

    /** Asks once for all calls that wait for the same token, until none of them does any more. */
    #ask(name, about, getToken) {
        const stop = new AbortController();
        const over = () => this.#asking.get(name) === asking && this.#asking.delete(name);
        const ask = async () => {
            try {
                const answer = getToken === undefined ? await this.#make(about, OWN_TOKEN_SECONDS, stop.signal) : await answerOf(getToken, about, stop.signal);
                throwIfAborted(stop.signal);
                const token = typeof answer === 'string' ? answer : answer?.token;
                if (typeof token !== 'string' || token === '') throw new AtollError({ code: 'no_token', detail: 'getToken returned no token' });
                this.#tokens.set(name, token);
                return token;
            } finally {
                over();
            }
        };
        const asking = { waiting: 0, token: null, giveUp: () => over() && stop.abort() };
        this.#asking.set(name, asking);
        asking.token = ask();
        // Nobody may wait for it any more.
        asking.token.catch(() => {});
        return asking;
    }

    /** A token that the server refused is not used again. */
    forget(about, token) {
        const name = nameOf(about);
        if (token === undefined || this.#tokens.get(name) === token) this.#tokens.delete(name);
    }
}

const nameOf = ({ kind, id, scope }) => `${kind}/${id}/${scope}`;

const thrownByGetToken = new WeakSet();

/** True if getToken threw `error`. Its `code` then comes from the backend and may equal one of the server's, so only its status counts. */
export function isFromGetToken(error) {
    return error instanceof AtollError && thrownByGetToken.has(error);
}

async function answerOf(getToken, { kind, id, scope }, signal) {
    const owner = { [OWNERS[kind]]: id };
    try {
        return await getToken({ ...owner, scope, signal });
    } catch (error) {
        if (!(error instanceof AtollError)) throw new AtollError({ code: 'no_token', detail: `getToken: ${error?.message ?? error}`, cause: error });
        thrownByGetToken.add(error);
        throw error;
    }
}
