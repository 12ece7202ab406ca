// Conversations: made, found and erased; and one of them, with its messages and events.
import { uniqueId } from './bytes.js';
import { AtollError } from './errors.js';
import { Follower } from './follow.js';
import { pages } from './pages.js';
import { addressOf, Sandbox } from './sandbox.js';
import { conversationSubject } from './transport.js';
import { asyncDispose, deleteAtEnd, Iteration } from './waiting.js';

const ROUTE = '/v1/conversations';

/** The query of a list. `metadata: {ticket: 17}` becomes `metadata.ticket=17`. */
function filterOf({ metadata = {}, signal, timeoutMs, ...filter }) {
    for (const [name, value] of Object.entries(metadata)) filter[`metadata.${name}`] = value;
    for (const [name, value] of Object.entries(filter)) if (value instanceof Date) filter[name] = value.toISOString();
    return filter;
}

export class Conversations {
    #transport;

    constructor(transport) {
        this.#transport = transport;
        this.tokens = {
            create: (id, { signal, timeoutMs, ...form } = {}) => transport.json('POST', `${ROUTE}/${encodeURIComponent(id)}/tokens`, { json: form, signal, timeoutMs }),
        };
    }
    async create({ signal, timeoutMs, idempotencyKey = uniqueId(), ...form } = {}) {
        const headers = { 'Idempotency-Key': idempotencyKey };
        const info = await this.#transport.json('POST', ROUTE, { json: form, headers, again: 'safe', signal, timeoutMs });
        return new Conversation(this.#transport, info.id, info);
    }
    async get(id, options = {}) {
        return new Conversation(this.#transport, id).refresh(options);
    }
    list(options = {}) {
        const make = (info) => new Conversation(this.#transport, info.id, info);
        return pages(this.#transport, ROUTE, { query: filterOf(options), items: 'conversations', make, signal: options.signal, timeoutMs: options.timeoutMs });
    }
    update(id, changes, options = {}) {
        return new Conversation(this.#transport, id).update(changes, options);
    }
    delete(id, options = {}) {
        return new Conversation(this.#transport, id).delete(options);
    }
    eraseUser(userId, { signal, timeoutMs } = {}) {
        if (typeof userId !== 'string' || userId === '') throw new TypeError('eraseUser needs the id of a user');
        return this.#transport.json('DELETE', ROUTE, { query: { userId }, signal, timeoutMs });
    }
    transcript(id, options = {}) {
        return new Conversation(this.#transport, id).transcript(options);
    }
}

export class Conversation {
    #transport;
    #path;
    #sandbox = null;

    constructor(transport, id, info = null) {
        if (typeof id !== 'string' || id === '') throw new TypeError('a conversation needs its id');
        this.#transport = transport;
        this.#path = `${ROUTE}/${encodeURIComponent(id)}`;
        this.id = id;
        this.info = info;
    }

    /** Its sandbox; the id comes from `info`. */
    get sandbox() {
        const id = this.info?.sandboxId;
        if (id === undefined) throw new TypeError('the sandbox is not known yet: refresh() first, or use atoll.sandbox(id)');
        return (this.#sandbox ??= new Sandbox(this.#transport, id));
    }

    async refresh({ signal, timeoutMs } = {}) {
        return this.#told(await this.#transport.json('GET', this.#path, { signal, timeoutMs }));
    }
    async update(changes, { signal, timeoutMs } = {}) {
        return this.#told(await this.#transport.json('PATCH', this.#path, { json: changes, signal, timeoutMs }));
    }
    async delete({ signal, timeoutMs } = {}) {
        await this.#transport.json('DELETE', this.#path, { signal, timeoutMs });
    }
    [asyncDispose]() {
        return deleteAtEnd(this);
    }
    async previewUrl(port, options = {}) {
        return addressOf((await this.refresh(options)).info, port);
    }
    async pause({ mode, signal, timeoutMs } = {}) {
        return this.#told(await this.#transport.json('POST', `${this.#path}/pause`, { json: mode === undefined ? {} : { mode }, signal, timeoutMs }));
    }
    async resume({ signal, timeoutMs } = {}) {
        return this.#told(await this.#transport.json('POST', `${this.#path}/resume`, { signal, timeoutMs }));
    }
    async interrupt({ signal, timeoutMs } = {}) {
        const info = await this.#transport.json('POST', `${this.#path}/interrupt`, { about: conversationSubject(this.id), signal, timeoutMs });
        // A token is told nothing of the conversation.
        return info === null ? this : this.#told(info);
    }
    /** Answers to the agent's events permission_request. */
    get permissions() {
        return {
            answer: (permissionId, optionId, { signal, timeoutMs } = {}) => this.#transport.json('POST', `${this.#path}/permissions/${encodeURIComponent(permissionId)}`, {
                about: conversationSubject(this.id), json: optionId === null ? { outcome: 'cancelled' } : { optionId }, signal, timeoutMs,
            }),
        };
    }
    async decideEgress(requestId, decision, { signal, timeoutMs } = {}) {
        await this.#transport.json('POST', `${this.#path}/egress/${encodeURIComponent(requestId)}`, { json: { decision }, signal, timeoutMs });
    }
    createToken({ signal, timeoutMs, ...form } = {}) {
        return this.#transport.json('POST', `${this.#path}/tokens`, { json: form, signal, timeoutMs });
    }
    transcript({ format, signal, timeoutMs } = {}) {
        const options = { about: conversationSubject(this.id), query: { format }, signal, timeoutMs };
        return this.#transport.whole('GET', `${this.#path}/transcript`, options, (response) => response.text());
    }

    send(content, { idempotencyKey = uniqueId(), getToken, signal, timeoutMs } = {}) {
        return this.#transport.json('POST', `${this.#path}/messages`, { ...this.#message(content, idempotencyKey), getToken, signal, timeoutMs });
    }
    /** A message as it is posted. Its key makes sending it again safe, also over a connection that is dead and does not tell. */
    #message(content, idempotencyKey) {
        const headers = { 'Idempotency-Key': idempotencyKey };
        return { about: conversationSubject(this.id), json: { content }, headers, again: 'safe', attemptMs: this.#transport.silenceMs };
    }

    stream(content, { idempotencyKey = uniqueId(), signal, ...options } = {}) {
        return new Iteration((inner) => this.#turnEvents(content, idempotencyKey, options, inner), signal);
    }

    async ask(content, { onEvent, ...options } = {}) {
        const answer = { turn: null, text: '', outcome: null, exitCode: null, errors: [], droppedBytes: 0 };
        for await (const event of this.stream(content, options)) {
            const { type, turn, data } = event;
            answer.turn = turn;
            if (type === 'text_delta') answer.text += data.delta;
            else if (type === 'turn_complete') Object.assign(answer, { outcome: data.result, exitCode: data.exitCode ?? null });
            else if (type === 'error') answer.errors.push(data);
            else if (type === 'output_truncated') answer.droppedBytes += data.droppedBytes;
            onEvent?.(event);
        }
        return answer;
    }

    follow({ signal, ...options } = {}) {
        let follower = null;
        const start = (inner) => {
            follower = this.#follower(options);
            return follower.events(inner);
        };
        const iteration = new Iteration(start, signal);
        Object.defineProperty(iteration, 'after', { get: () => follower?.cursor ?? String(options.after ?? 0), enumerable: true });
        return iteration;
    }

    #follower(options) {
        const byDefault = this.#transport.access.hasKey || !this.#transport.hasWebSocket ? 'sse' : 'websocket';
        return new Follower(this.#transport, this.#path, this.id, { ...options, transport: options.transport ?? byDefault });
    }

    /** The events of the turn that `content` starts, until `done`; over another connection where the first one breaks. */
    async *#turnEvents(content, idempotencyKey, options, signal) {
        let after = null;
        let epoch = '';
        let turn = null;
        if (this.#transport.access.hasKey) {
            try {
                for await (const event of this.#postForEvents(content, idempotencyKey, signal, (told) => (epoch = told))) {
                    turn = event.turn;
                    after = epoch === '' ? event.seq : `${event.seq}-${epoch}`;
                    yield event;
                    if (event.type === 'done') return;
                }
            } catch (error) {
                if (!(error instanceof AtollError) || error.status !== 0 || error.code === 'conversation_ended') throw error;
            }
        }
        // The same key: this starts nothing where the turn has been started.
        if (turn === null) ({ turn, after } = await this.send(content, { idempotencyKey, getToken: options.getToken, signal }));
        // The turn of a log that is replaced is gone: no other one has its events.
        for await (const event of this.follow({ ...options, after, onReset: undefined, signal })) {
            if (event.turn !== turn) continue;
            yield event;
            if (event.type === 'done') return;
        }
        throw new AtollError({ code: 'conversation_ended', detail: 'The conversation was removed before its turn was over.' });
    }

    #postForEvents(content, idempotencyKey, signal, onEpoch) {
        return this.#transport.events('POST', `${this.#path}/messages`, { ...this.#message(content, idempotencyKey), signal, onEpoch });
    }

    #told(info) {
        this.info = info;
        return this;
    }
}
