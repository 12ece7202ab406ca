// Code mode: programs that a model wrote, each run in a sandbox of its own, and the answers to the tools that they call.
import { AtollError, connectionFailed, isPassingStatus } from './errors.js';
import { pages } from './pages.js';
import { callMs, executionSubject } from './transport.js';
import { Backoff, Deadline, Iteration, throwIfAborted } from './waiting.js';

const ROUTE = '/v1/executions';
const MOST_MESSAGE_LENGTH = 4000;
// The run has ended, or somebody else was faster.
const TOO_LATE = new Set(['execution_ended', 'call_answered', 'not_found']);
// Too long, too deep, no JSON that the server takes, or no turn for what is long: the call still waits.
const NOT_TAKEN = new Set([400, 413, 422, 429, 504]);

const pathOf = (id) => `${ROUTE}/${encodeURIComponent(id)}`;

/** Answers a call, or decides about it. */
async function answerCall(transport, id, callId, answer, options) {
    let isUnanswered = false;
    const onUnanswered = () => (isUnanswered = true);
    try {
        await transport.json('POST', `${pathOf(id)}/calls/${encodeURIComponent(callId)}`, { ...options, json: answer, again: 'safe', onUnanswered });
    } catch (error) {
        // An attempt whose own answer was lost has done it.
        if (!isUnanswered || error.code !== 'call_answered') throw error;
    }
}

/** `execute` of the server, or of the sandbox whose route `path` is. */
export function executeOver(transport, path) {
    const call = async (code, { tools, signal, ...form } = {}) => {
        const json = { code, ...form, ...wireTools(tools) };
        if (tools?.some(({ run, decide }) => run !== undefined || decide !== undefined)) return attended(transport, path, json, tools, signal);
        return transport.json('POST', path, { json, signal, timeoutMs: callMs(form.timeoutMs) });
    };
    return Object.assign(call, {
        stream: (code, { tools, signal, ...form } = {}) => new Iteration((inner) => eventsOf(transport, path, { code, ...form, ...wireTools(tools) }, inner), signal),
        start: async (code, { tools, signal, ...form } = {}) => {
            const { executionId } = await transport.json('POST', path, { json: { code, ...form, ...wireTools(tools), detached: true }, signal });
            return executionId;
        },
    });
}

/** The tools as the server takes them, without the functions of the caller. */
function wireTools(tools) {
    return tools === undefined ? {} : { tools: tools.map(({ run, decide, ...tool }) => tool) };
}

async function* eventsOf(transport, path, json, signal) {
    for await (const event of transport.events('POST', path, { json, timeoutMs: callMs(json.timeoutMs), signal })) {
        yield event;
        if (event.type === 'done') return;
    }
    throw connectionFailed('the stream ended before the program did');
}

/** Runs a program and answers its calls; an error of an answer ends the run. */
async function attended(transport, path, json, tools, signal) {
    const run = new Deadline(Infinity, signal);
    const byName = new Map(tools.map((tool) => [tool.name, tool]));
    const logs = [];
    let id;
    let result;
    try {
        for await (const { type, data } of eventsOf(transport, path, json, run.signal)) {
            if (type === 'start') id = data.executionId;
            else if (type === 'log') logs.push(data);
            else if (type === 'result') result = data;
            else if (type === 'tool_call') attend(transport, id, data, byName.get(data.name) ?? {}, run.signal).catch((error) => run.end(error));
        }
    } finally {
        run.end(new AtollError({ code: 'execution_ended' }));
        run.release();
    }
    return { ...result, logs };
}

/** Decides about a call where that is asked for, and answers it unless the sandbox does. */
async function attend(transport, id, call, tool, signal) {
    try {
        if (call.policy === 'ask') {
            const isAllowed = (await tool.decide?.(call)) === true;
            await answerCall(transport, id, call.callId, { decision: isAllowed ? 'allow' : 'deny' }, { signal });
            if (!isAllowed) return;
        }
        if (call.answeredBy === 'sandbox') return;
        const answer = await answerOf(tool, call);
        await answerCall(transport, id, call.callId, answer, { signal }).catch((error) => {
            // The program hears of it, instead of waiting for its end.
            if (!NOT_TAKEN.has(error.status)) throw error;
            return answerCall(transport, id, call.callId, failure(error.detail), { signal });
        });
    } catch (error) {
        if (!TOO_LATE.has(error?.code)) throw error;
    }
}

async function answerOf({ run }, { name, args }) {
    if (run === undefined) return failure(`nobody answers ${name}`);
    try {
        const result = await run(...args);
        // The result is made JSON here, as it will be sent: a result that JSON cannot hold is an error of the tool.
        return withTags({ result: result === undefined ? { $atoll: 'undefined' } : result });
    } catch (error) {
        return failure(String(error?.message ?? error));
    }
}

/** The answer of a call as it is sent: a BigInt of any length is a BigInt in the program, too. */
function withTags(answer) {
    return JSON.parse(JSON.stringify(answer, (_, value) => (typeof value === 'bigint' ? { $atoll: 'bigint', value: String(value) } : value)));
}

const failure = (message) => ({ error: { message: message.slice(0, MOST_MESSAGE_LENGTH) } });

export class Executions {
    #transport;

    constructor(transport) {
        this.#transport = transport;
        this.tokens = {
            create: (id, { signal, timeoutMs, ...form } = {}) => transport.json('POST', `${pathOf(id)}/tokens`, { json: form, signal, timeoutMs }),
        };
    }
    list({ signal, timeoutMs, ...query } = {}) {
        return pages(this.#transport, ROUTE, { query, items: 'executions', signal, timeoutMs });
    }
    get(id, { signal, timeoutMs } = {}) {
        return this.#transport.json('GET', pathOf(id), { signal, timeoutMs });
    }
    cancel(id, { signal, timeoutMs } = {}) {
        return this.#transport.json('DELETE', pathOf(id), { signal, timeoutMs });
    }
    async answer(id, callId, answer, { signal, timeoutMs } = {}) {
        await answerCall(this.#transport, id, callId, withTags(answer), { signal, timeoutMs });
    }
    follow(id, { after = 0, getToken, signal } = {}) {
        return new Iteration((inner) => this.#events(id, after, getToken, inner), signal);
    }
    async executors({ signal, timeoutMs } = {}) {
        const answer = await this.#transport.json('GET', '/v1/executors', { signal, timeoutMs });
        return answer.executors;
    }
    async declarations(tools, { signal, timeoutMs } = {}) {
        const { declarations, warnings = [] } = await this.#transport.json('POST', '/v1/executors/prompt', { json: wireTools(tools), signal, timeoutMs });
        return { declarations, warnings };
    }

    /** True if no event follows number `after`: that event is `done`, or no event has that number. */
    async #isLast(path, after, options) {
        if (after === 0) return false;
        const { events } = await this.#transport.json('GET', path, { ...options, query: { after: after - 1 } });
        return events.length === 0 || events[0].type === 'done';
    }

    async *#events(id, first, getToken, signal) {
        const about = executionSubject(id);
        const path = `${pathOf(id)}/events`;
        const backoff = new Backoff();
        for (let after = first; ; ) {
            let error = connectionFailed('the stream ended before the program did');
            try {
                for await (const event of this.#transport.live(path, { about, query: { after }, getToken, onOpen: () => backoff.connected(), signal })) {
                    after = event.seq;
                    backoff.succeeded();
                    yield event;
                    if (event.type === 'done') return;
                }
                if (await this.#isLast(path, after, { about, getToken, signal })) return;
            } catch (thrown) {
                error = thrown;
            }
            throwIfAborted(signal);
            if (!isPassing(error)) throw error;
            if (error.code === 'token_expired') this.#transport.access.forget(about);
            await backoff.wait(error, signal, (...told) => this.#transport.tellRetry('GET', path, ...told));
        }
    }
}

function isPassing(error) {
    return error instanceof AtollError && isPassingStatus(error);
}
