// A sandbox: commands, tools, and ways to its files and processes.
import { toBase64, withOutput, withOutputs } from './bytes.js';
import { AtollError, connectionFailed } from './errors.js';
import { executeOver } from './executions.js';
import { Files } from './files.js';
import { pages } from './pages.js';
import { Processes } from './processes.js';
import { openTerminal } from './terminal.js';
import { callMs } from './transport.js';
import { asyncDispose, deleteAtEnd, Iteration } from './waiting.js';

const ROUTE = '/v1/sandboxes';

/** The form of what runs: a string is a script for `bash -c`, an array a program with its arguments. */
export function programOf(program) {
    if (typeof program === 'string') return { command: program };
    if (Array.isArray(program)) return { argv: program };
    throw new TypeError('a command (string) or an argv (array of strings) is needed');
}

function execForm(program, { stdin, signal, ...options }) {
    const form = { ...programOf(program), ...options };
    if (typeof stdin === 'string') form.stdin = stdin;
    else if (stdin !== undefined) form.stdinBase64 = toBase64(stdin);
    return form;
}

/** The address at which a browser sees a port, by what the server told of a sandbox or its conversation. */
export function addressOf({ preview, sandboxPublicUrl, openPorts }, port) {
    if (port === undefined || port === preview.ports[0]) return sandboxPublicUrl;
    return openPorts.find((open) => open.port === port)?.url ?? null;
}

export class Sandboxes {
    #transport;

    constructor(transport) {
        this.#transport = transport;
    }
    async create({ signal, timeoutMs, ...form } = {}) {
        const info = await this.#transport.json('POST', ROUTE, { json: form, signal, timeoutMs });
        return new Sandbox(this.#transport, info.id, info);
    }
    async get(id, options = {}) {
        return new Sandbox(this.#transport, id).refresh(options);
    }
    list({ signal, timeoutMs, ...query } = {}) {
        const make = (info) => new Sandbox(this.#transport, info.id, info);
        return pages(this.#transport, ROUTE, { query, items: 'sandboxes', make, signal, timeoutMs });
    }
}

export class Sandbox {
    #transport;
    #path;

    constructor(transport, id, info = null) {
        if (typeof id !== 'string' || id === '') throw new TypeError('a sandbox needs its id');
        this.#transport = transport;
        this.#path = `${ROUTE}/${encodeURIComponent(id)}`;
        this.id = id;
        this.info = info;
        this.files = new Files(transport, this.#path, id);
        this.processes = new Processes(transport, this.#path, id);
        this.exec = Object.assign((program, options = {}) => this.#exec(program, options), {
            stream: (program, options = {}) => new Iteration((signal) => this.#execStream(program, options, signal), options.signal),
        });
        this.execute = executeOver(transport, `${this.#path}/execute`);
        this.tools = Object.assign((format, options = {}) => listTools(transport, { format, sandboxId: id }, options), {
            call: (name, args, context, options = {}) => this.#callTool(name, args, context, options),
            stream: (name, args, context, options = {}) => new Iteration((signal) => this.#streamTool(name, args, context, signal), options.signal),
        });
    }

    async refresh({ signal, timeoutMs } = {}) {
        this.info = await this.#transport.json('GET', this.#path, { signal, timeoutMs });
        return this;
    }
    async update(changes, { signal, timeoutMs } = {}) {
        this.info = await this.#transport.json('PATCH', this.#path, { json: changes, signal, timeoutMs });
        return this;
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
    metrics({ signal, timeoutMs } = {}) {
        return this.#transport.json('GET', `${this.#path}/metrics`, { signal, timeoutMs });
    }
    logs({ after, stream, signal, timeoutMs } = {}) {
        return this.#transport.json('GET', `${this.#path}/logs`, { query: { after, stream }, signal, timeoutMs });
    }
    createToken({ signal, timeoutMs, ...form } = {}) {
        return this.#transport.json('POST', `${this.#path}/tokens`, { json: form, signal, timeoutMs });
    }
    terminal(options = {}) {
        return openTerminal(this.processes, options);
    }

    async #exec(program, options) {
        return withOutputs(await this.#transport.json('POST', `${this.#path}/exec`, { json: execForm(program, options), signal: options.signal, timeoutMs: callMs(options.timeoutMs) }));
    }

    async *#execStream(program, options, signal) {
        for await (const frame of this.#transport.events('POST', `${this.#path}/exec`, { json: execForm(program, options), signal })) {
            yield frame.type === 'exit' ? frame : withOutput({ type: frame.type }, 'data', 'bytes', frame.text, frame.base64);
            if (frame.type === 'exit') return;
        }
        throw connectionFailed('the stream ended before the program did');
    }

    #toolForm(args, context) {
        const form = { sandboxId: this.id, args };
        if (context !== undefined) form.context = context;
        return form;
    }
    #callTool(name, args, context, { signal, timeoutMs }) {
        return this.#transport.json('POST', toolPath(name), { json: this.#toolForm(args, context), signal, timeoutMs });
    }
    async *#streamTool(name, args, context, signal) {
        for await (const frame of this.#transport.events('POST', toolPath(name), { json: this.#toolForm(args, context), signal })) {
            if (frame.type === 'error') throw new AtollError(frame);
            yield frame;
            if (frame.type === 'tool_result') return;
        }
        throw connectionFailed('the stream ended before the result');
    }
}

function toolPath(name) {
    return `/v1/tools/${encodeURIComponent(name)}`;
}

/** The tools with their schemas, in the form that a model's API takes; with a `sandboxId` without those that are switched off there. */
export function listTools(transport, query, { signal, timeoutMs }) {
    return transport.json('GET', '/v1/tools', { query, signal, timeoutMs });
}
