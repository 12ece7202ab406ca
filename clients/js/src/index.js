// The client of an Atoll server. index.d.ts has the types and what each call does.
import { Conversation, Conversations } from './conversation.js';
import { executeOver, Executions } from './executions.js';
import { listTools, Sandbox, Sandboxes } from './sandbox.js';
import { Secrets } from './secrets.js';
import { Transport } from './transport.js';

export { AtollError } from './errors.js';

export class Atoll {
    #transport;

    constructor(options) {
        this.#transport = new Transport(options ?? {});
        this.conversations = new Conversations(this.#transport);
        this.sandboxes = new Sandboxes(this.#transport);
        this.executions = new Executions(this.#transport);
        this.secrets = new Secrets(this.#transport);
        this.execute = executeOver(this.#transport, '/v1/execute');
    }
    conversation(id) {
        return new Conversation(this.#transport, id);
    }
    sandbox(id) {
        return new Sandbox(this.#transport, id);
    }
    tools(format, { signal, timeoutMs } = {}) {
        return listTools(this.#transport, { format }, { signal, timeoutMs });
    }
    system({ signal, timeoutMs } = {}) {
        return this.#transport.json('GET', '/v1/system', { signal, timeoutMs });
    }
}
