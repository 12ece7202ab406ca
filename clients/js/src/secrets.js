// Secrets: values that the server puts into requests of routes. None comes back.
const ROUTE = '/v1/secrets';

function pathOf(name) {
    if (typeof name !== 'string' || name === '') throw new TypeError('a secret needs its name');
    return `${ROUTE}/${encodeURIComponent(name)}`;
}

export class Secrets {
    #transport;

    constructor(transport) {
        this.#transport = transport;
    }
    async put(name, { value, hosts, userId }, { signal, timeoutMs } = {}) {
        return this.#transport.json('PUT', pathOf(name), { json: { value, hosts, userId }, again: 'safe', signal, timeoutMs });
    }
    async get(name, { userId, signal, timeoutMs } = {}) {
        return this.#transport.json('GET', pathOf(name), { query: { userId }, signal, timeoutMs });
    }
    async list({ userId, signal, timeoutMs } = {}) {
        return (await this.#transport.json('GET', ROUTE, { query: { userId }, signal, timeoutMs })).secrets;
    }
    async delete(name, { userId, signal, timeoutMs } = {}) {
        await this.#transport.json('DELETE', pathOf(name), { query: { userId }, signal, timeoutMs });
    }
}
