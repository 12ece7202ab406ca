// The error of every call, whatever went wrong: an answer of the server, a stream that it ended, or a broken connection.

/** `code` is a stable word of docs/errors.md, or one of the client's own: `connection_failed`, `invalid_answer`. */
export class AtollError extends Error {
    constructor({ status = 0, code, detail = '', pointer = null, requestId = null, retryAfter = null, budget = null, logEpoch = null, cause }) {
        super(detail === '' ? code : `${code}: ${detail}`, cause === undefined ? undefined : { cause });
        this.name = 'AtollError';
        this.status = status;
        this.code = code;
        this.detail = detail;
        this.pointer = pointer;
        this.requestId = requestId;
        this.retryAfter = retryAfter;
        this.budget = budget;
        this.logEpoch = logEpoch;
    }
}

/** True if an error may pass: there was no answer, or the server is busy or ill. False for a budget that waiting does not free, and for a full disk. */
export function isPassingStatus({ status, budget = null, retryAfter = null }) {
    if (budget !== null && retryAfter === null) return false;
    return status === 0 || status === 408 || status === 429 || (status >= 500 && status !== 507);
}

/** A connection that could not be made or that broke. The request may have reached the server. */
export function connectionFailed(detail, cause) {
    return new AtollError({ code: 'connection_failed', detail, cause });
}

/** Seconds of a `Retry-After` field: a number, or a date. */
function retryAfterOf(value) {
    if (value === null) return null;
    const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
    return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

/** The error that a response with a status above 299 tells. Reads its body. */
export async function errorOf(response) {
    const text = await response.text().catch(() => '');
    let problem = {};
    try {
        problem = JSON.parse(text) ?? {};
    } catch {
        // Something between here and the server answered.
    }
    return new AtollError({
        status: response.status,
        code: problem.code ?? `http_${response.status}`,
        detail: problem.detail ?? text.slice(0, 300),
        pointer: problem.pointer ?? null,
        requestId: problem.requestId ?? response.headers.get('X-Request-Id'),
        retryAfter: retryAfterOf(response.headers.get('Retry-After')),
        budget: problem.budget ?? null,
        logEpoch: problem.logEpoch ?? null,
    });
}
