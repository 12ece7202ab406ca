// Waiting that ends with an AbortSignal and leaves no timer and no listener behind.

/** Throws the signal's reason if it is aborted. */
export function throwIfAborted(signal) {
    if (signal?.aborted) throw signal.reason;
}

/** Resolves after `ms`, or, with `wakes`, as soon as a connection is likelier; rejects with the reason once the signal is aborted. */
export function pause(ms, signal, { wakes = false } = {}) {
    return new Promise((done, fail) => {
        if (signal?.aborted) return fail(signal.reason);
        const end = () => {
            clearTimeout(timer);
            signal?.removeEventListener('abort', abort);
            unlisten();
        };
        const abort = () => {
            end();
            fail(signal.reason);
        };
        const over = () => {
            end();
            done();
        };
        const timer = setTimeout(over, ms);
        const unlisten = wakes ? onWake(over) : () => {};
        signal?.addEventListener('abort', abort);
    });
}

/** Settles as `promise` does, or rejects with the reason of the signal once that is aborted. */
export function abortable(promise, signal) {
    if (signal === undefined) return promise;
    return new Promise((done, fail) => {
        const abort = () => fail(signal.reason);
        if (signal.aborted) return abort();
        signal.addEventListener('abort', abort);
        promise.then(done, fail).finally(() => signal.removeEventListener('abort', abort));
    });
}

/** Calls `wake` when a browser is online again or shows the page again; returns what ends that. Node tells neither. */
export function onWake(wake) {
    const { document } = globalThis;
    const shown = () => document.visibilityState === 'visible' && wake();
    globalThis.addEventListener?.('online', wake);
    document?.addEventListener?.('visibilitychange', shown);
    return () => {
        globalThis.removeEventListener?.('online', wake);
        document?.removeEventListener?.('visibilitychange', shown);
    };
}

const MOST_TIMER_MS = 2 ** 31 - 1;

/** A signal that is aborted with `outer`, or after `ms` with what `error()` returns. */
export class Deadline {
    #stop = new AbortController();
    #outer;
    #timer;
    #forward = () => this.#stop.abort(this.#outer.reason);

    constructor(ms, outer, error) {
        this.#outer = outer;
        if (outer?.aborted) this.#forward();
        outer?.addEventListener('abort', this.#forward);
        if (ms <= MOST_TIMER_MS) this.#timer = setTimeout(() => this.#stop.abort(error()), ms);
    }
    get signal() {
        return this.#stop.signal;
    }
    end(error) {
        this.#stop.abort(error);
    }
    /** The time counts no more; `outer` does. */
    meet() {
        clearTimeout(this.#timer);
    }
    /** Neither counts any more. */
    release() {
        this.meet();
        this.#outer?.removeEventListener('abort', this.#forward);
    }
}

/** The method that ends `await using`: a symbol that older engines lack, and that compilers then name so. */
export const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

/** Deletes what `await using` held; what is gone already is no error. */
export async function deleteAtEnd(owned) {
    await owned.delete().catch((error) => {
        if (error?.code !== 'not_found') throw error;
    });
}

const FIRST_MS = 500;
const MOST_MS = 10_000;
const STEADY_MS = 10_000;

/** Delays that grow with each failure in a row, each between half of it and all of it, so that clients do not come back at once. */
export class Backoff {
    #failures = 0;
    #connectedAt = null;

    /** A connection is open. One that stays so for some time counts as a success even if it is silent. */
    connected() {
        this.#connectedAt = Date.now();
    }
    succeeded() {
        this.#failures = 0;
    }
    /** Milliseconds until the next attempt, never fewer than the server asked for. */
    next(retryAfterSeconds = null) {
        if (this.#connectedAt !== null && Date.now() - this.#connectedAt > STEADY_MS) this.#failures = 0;
        this.#connectedAt = null;
        const most = Math.min(MOST_MS, FIRST_MS * 2 ** Math.min(this.#failures++, 10));
        return Math.max(most * (0.5 + Math.random() / 2), (retryAfterSeconds ?? 0) * 1000);
    }
    /** Failures in a row. */
    get failures() {
        return this.#failures;
    }
    /** Waits until the next attempt after `error`; `tell(attempt, delayMs, error)` hears of it first. */
    wait(error, signal, tell) {
        const delayMs = this.next(error?.retryAfter);
        tell(this.#failures, delayMs, error);
        return pause(delayMs, signal, { wakes: (error?.retryAfter ?? null) === null });
    }
}

/**
 * An async iterator over what `generate(signal)` yields. Unlike a generator it can be ended while next() waits: return() aborts
 * the signal that the generator was given. Nothing happens before the first next().
 */
export class Iteration {
    #generate;
    #outer;
    #inner = null;
    #stop = new AbortController();
    #isReturned = false;
    #forward = () => this.#stop.abort(this.#outer.reason);

    constructor(generate, signal) {
        this.#generate = generate;
        this.#outer = signal;
    }
    [Symbol.asyncIterator]() {
        return this;
    }
    async next() {
        if (this.#isReturned) return { value: undefined, done: true };
        try {
            throwIfAborted(this.#outer);
            if (this.#inner === null) {
                this.#outer?.addEventListener('abort', this.#forward);
                this.#inner = this.#generate(this.#stop.signal);
            }
            const result = await this.#inner.next();
            if (result.done) this.#release();
            return result;
        } catch (error) {
            this.#release();
            this.#inner?.return().catch(() => {});
            if (this.#isReturned) return { value: undefined, done: true };
            throw error;
        }
    }
    async return(value) {
        this.#isReturned = true;
        this.#stop.abort(new DOMException('The iteration was ended.', 'AbortError'));
        this.#release();
        await this.#inner?.return().catch(() => {});
        return { value, done: true };
    }
    #release() {
        this.#outer?.removeEventListener('abort', this.#forward);
    }
}
