// The events of a conversation, each once and in order, over connections that break, servers that end and tokens that expire.
import { isFromGetToken } from './access.js';
import { AtollError, connectionFailed, isPassingStatus } from './errors.js';
import { parseJson } from './json.js';
import { epochOf } from './sse.js';
import { conversationSubject } from './transport.js';
import { Backoff, pause, throwIfAborted } from './waiting.js';

const MOST_REFUSED_TOKENS = 4; // by the server, in a row
const FATAL = new Set(['token_mismatch', 'token_scope', 'origin_not_allowed', 'protocol_error', 'invalid_answer']);
const OVER = new Set(['conversation_ended', 'not_found']);

/** True if the client connects again after `error`, rather than giving up. */
function isPassing(error) {
    return error instanceof AtollError && isPassingStatus(error) && (isFromGetToken(error) || !FATAL.has(error.code));
}

/** Follows one conversation. */
export class Follower {
    #transport;
    #path;
    #about;
    #options;
    #backoff = new Backoff();
    #refusedTokens = 0;
    #wasConnected = false;
    #epoch = '';
    #isGap = false;
    #lost = 0;

    constructor(transport, path, id, options) {
        this.#transport = transport;
        this.#path = path;
        this.#about = conversationSubject(id);
        this.#options = options;
        this.after = Number.parseInt(options.after ?? 0, 10);
        this.#epoch = epochOf(options.after ?? '');
    }

    /** Where the next connection goes on: the seq of the last event, and of which log it is. */
    get cursor() {
        return this.after === 0 || this.#epoch === '' ? String(this.after) : `${this.after}-${this.#epoch}`;
    }

    /** Yields events until the conversation is removed. Throws what cannot be cured by connecting again. */
    async *events(signal) {
        const connect = this.#options.transport === 'websocket' ? this.#overSocket : this.#overFetch;
        for (;;) {
            let error;
            try {
                for await (const event of connect.call(this, signal)) {
                    if (this.#accept(event)) yield event;
                }
                error = connectionFailed('the stream ended');
            } catch (thrown) {
                error = thrown;
            }
            throwIfAborted(signal);
            if (this.#isEnd(error)) return;
            const delayMs = this.#judge(error);
            this.#options.onStatus?.('waiting', { code: error.code ?? 'connection_failed', detail: error.detail ?? String(error), delayMs });
            if (delayMs > 0) this.#transport.tellRetry('GET', `${this.#path}/events`, this.#backoff.failures, delayMs, error);
            if (delayMs > 0) await pause(delayMs, signal, { wakes: (error.retryAfter ?? null) === null });
        }
    }

    #isEnd(error) {
        return !isFromGetToken(error) && (error.code === 'conversation_ended' || (error.code === 'not_found' && this.#wasConnected));
    }

    #accept(event) {
        if (event.seq <= this.after) return false;
        if (this.#isGap) this.#options.onGap({ after: this.#lost, next: event.seq });
        this.#isGap = false;
        this.#backoff.succeeded();
        this.#setCursor(event.seq, event.type === 'session_start' ? event.data.logEpoch : undefined);
        return true;
    }

    #setCursor(seq, epoch) {
        this.after = seq;
        this.#epoch = epoch || this.#epoch;
    }

    /** Milliseconds until the next attempt; throws the error if there is to be none. */
    #judge(error) {
        if (isFromGetToken(error)) {
            if (!isPassing(error)) throw error;
            return this.#backoff.next(error.retryAfter);
        }
        if (OVER.has(error.code)) throw error;
        if (error.code === 'log_replaced') {
            if (this.#options.onReset === undefined) throw error;
            this.#setCursor(0, error.logEpoch);
            this.#isGap = false;
            this.#options.onReset();
            return this.#backoff.next(error.retryAfter);
        }
        if (error.code === 'seq_expired') {
            if (this.#options.onGap === undefined) throw error;
            this.#isGap = true;
            this.#lost = this.after;
            this.after = 0;
            return 0;
        }
        if (this.#isAboutToken(error)) {
            if (!this.#transport.access.canRenew(this.#options.getToken)) throw error;
            this.#transport.access.forget(this.#about);
            if (this.#refusedTokens++ === 0) return 0;
            if (this.#refusedTokens > MOST_REFUSED_TOKENS) throw error;
        } else if (!isPassing(error)) {
            throw error;
        }
        return this.#backoff.next(error.retryAfter);
    }

    #isAboutToken({ code }) {
        if (code !== 'unauthorized' && code !== 'invalid_token') return code === 'token_expired';
        return !this.#transport.access.hasKey || this.#options.getToken !== undefined;
    }

    #connected() {
        this.#wasConnected = true;
        this.#backoff.connected();
        this.#options.onStatus?.('live', {});
    }

    /** The server has taken the token: however often it expires, there may be another one. */
    #admitted() {
        this.#refusedTokens = 0;
    }

    #overFetch(signal) {
        return this.#transport.live(`${this.#path}/events`, {
            about: this.#about, query: { after: this.cursor }, getToken: this.#options.getToken, signal,
            onOpen: () => {
                this.#admitted();
                this.#connected();
            },
            onEpoch: (epoch) => (this.#epoch = epoch),
        });
    }

    /** A WebSocket says the epoch with its first event alone: a client that did not see that one asks a page for it. */
    async #learnEpoch(signal) {
        if (this.after === 0 || this.#epoch !== '') return;
        const page = await this.#transport.json('GET', `${this.#path}/events`, {
            about: this.#about, query: { after: this.after, limit: 1 }, again: 'never', getToken: this.#options.getToken, signal,
        });
        this.#epoch = page.logEpoch;
    }

    async *#overSocket(signal) {
        await this.#learnEpoch(signal);
        const options = { about: this.#about, query: { after: this.cursor }, getToken: this.#options.getToken, signal };
        const socket = await this.#transport.openSocket(`${this.#path}/ws`, options, {
            onOpen: () => this.#connected(),
            onFirst: () => this.#admitted(),
        });
        const abort = () => socket.close();
        if (signal.aborted) abort();
        signal.addEventListener('abort', abort);
        try {
            for (;;) {
                const { data, end } = await socket.next();
                throwIfAborted(signal);
                if (end !== undefined) throw await this.#transport.whyRefused(socket, end, `${this.#path}/events`, { ...options, query: { ...options.query, limit: 1 } });
                const event = parseJson(data);
                // Else the answer to a probe that came too late, or was too many.
                if (event.seq !== undefined) yield event;
            }
        } finally {
            signal.removeEventListener('abort', abort);
            socket.close();
        }
    }
}
