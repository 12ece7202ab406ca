// Requests to the server with the key. Every refusal is an ApiError that carries the server's words.

export class ApiError extends Error {
    constructor(status, code, detail) {
        super(detail);
        this.status = status; // 0: no answer
        this.code = code;
    }
}

export async function problemOf(response) {
    let problem = {};
    try {
        problem = await response.json();
    } catch {
        // A proxy's page, or nothing at all.
    }
    const code = typeof problem.code === 'string' ? problem.code : `http_${response.status}`;
    const detail = typeof problem.detail === 'string' && problem.detail !== '' ? problem.detail : `The server answered ${response.status}.`;
    return new ApiError(response.status, code, detail);
}

export class Api {
    #key;
    #onUnauthorized;

    constructor(key, onUnauthorized = () => {}) {
        this.#key = key;
        this.#onUnauthorized = onUnauthorized;
    }

    /** A response of a 2xx status; throws ApiError. `body` is sent as JSON, `bytes` (a Blob or an array) as they are. */
    async fetch(method, path, { body, bytes, headers = {}, signal } = {}) {
        const all = { Authorization: `Bearer ${this.#key}`, ...headers };
        if (body !== undefined) all['Content-Type'] = 'application/json';
        if (bytes !== undefined) all['Content-Type'] = 'application/octet-stream';
        const options = { method, headers: all, signal, cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer' };
        if (body !== undefined) options.body = JSON.stringify(body);
        if (bytes !== undefined) options.body = bytes;
        let response;
        try {
            response = await fetch(path, options);
        } catch (error) {
            if (error.name === 'AbortError') throw error;
            throw new ApiError(0, 'unreachable', 'The server cannot be reached.');
        }
        if (response.ok) return response;
        const problem = await problemOf(response);
        if (problem.status === 401) this.#onUnauthorized(problem);
        throw problem;
    }

    async json(method, path, options) {
        const response = await this.fetch(method, path, options);
        return response.status === 204 ? null : response.json();
    }

    system() {
        return this.json('GET', '/v1/system');
    }
    /** {agents: [{name, adapter, installed, reason?, setup?}]}. */
    agents() {
        return this.json('GET', '/v1/agents');
    }
    list(cursor) {
        const from = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`;
        return this.json('GET', `/v1/conversations?order=newest&limit=50${from}`);
    }
    create(form) {
        return this.json('POST', '/v1/conversations', { body: form });
    }
    get(id) {
        return this.json('GET', pathOf(id));
    }
    /** A page of its log: {events, next}. */
    events(id, after, limit, signal) {
        return this.json('GET', `${pathOf(id)}/events?after=${after}&limit=${limit}`, { headers: { Accept: 'application/json' }, signal });
    }
    patch(id, change) {
        return this.json('PATCH', pathOf(id), { body: change });
    }
    /** {token, expiresAt, url}: the address at which a browser gets a private preview's pass. */
    previewToken(id) {
        return this.json('POST', `${pathOf(id)}/tokens`, { body: { scope: 'preview' } });
    }
    /** Decides on a host that a program inside asks for: once, always or deny. */
    decide(id, requestId, decision) {
        return this.json('POST', `${pathOf(id)}/egress/${encodeURIComponent(requestId)}`, { body: { decision } });
    }
    /** Answers a permission_request with one of its options, or with null: cancels it. */
    permit(id, permissionId, optionId) {
        const body = optionId === null ? { outcome: 'cancelled' } : { optionId };
        return this.json('POST', `${pathOf(id)}/permissions/${encodeURIComponent(permissionId)}`, { body });
    }
    /** The resources that a sandbox uses now. */
    usage(sandboxId) {
        return this.json('GET', `${sandboxPathOf(sandboxId)}/metrics`);
    }
    remove(id) {
        return this.json('DELETE', pathOf(id));
    }
    /** `what` is interrupt, pause, freeze or resume. */
    act(id, what) {
        if (what === 'freeze') return this.json('POST', `${pathOf(id)}/pause`, { body: { mode: 'warm' } });
        return this.json('POST', `${pathOf(id)}/${what}`);
    }

    /**
     * Sends a message: {turn, after}. The key makes it safe to send it again, which is why messages take this way also where
     * events come over a WebSocket.
     */
    send(id, content, key) {
        return this.json('POST', `${pathOf(id)}/messages`, { body: { content }, headers: { 'Idempotency-Key': key } });
    }
}

export function sandboxPathOf(sandboxId) {
    return `/v1/sandboxes/${encodeURIComponent(sandboxId)}`;
}

export function pathOf(id) {
    return `/v1/conversations/${encodeURIComponent(id)}`;
}
