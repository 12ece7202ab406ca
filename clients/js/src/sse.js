// Reads Server-Sent Events (WHATWG HTML, section 9.2) from the body of a fetch, so that keys travel in headers.
import { AtollError, connectionFailed } from './errors.js';
import { parseJson } from './json.js';

/** Takes text in any pieces and returns the `data` of the frames that are whole. */
export class FrameParser {
    /** The last `id` that came. */
    lastId = '';
    #line = '';
    #data = [];
    #endedWithCr = false;

    push(text) {
        const frames = [];
        for (const [, line, end] of text.matchAll(/([^\r\n]*)(\r\n|\n|\r|$)/g)) {
            if (line === '' && end === '\n' && this.#endedWithCr) {
                this.#endedWithCr = false;
                continue;
            }
            if (line !== '' || end !== '') this.#endedWithCr = false;
            this.#line += line;
            if (end === '') continue;
            this.#endedWithCr = end === '\r';
            this.#take(frames);
        }
        return frames;
    }
    #take(frames) {
        const line = this.#line;
        this.#line = '';
        if (line === '') {
            if (this.#data.length > 0) frames.push(this.#data.join('\n'));
            this.#data = [];
        } else if (line.startsWith('data:')) {
            this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
        } else if (line.startsWith('id:')) {
            this.lastId = line.slice(line[3] === ' ' ? 4 : 3);
        }
    }
}

/** The next piece of a body; rejects if none comes for `silenceMs`: heartbeats should have. */
async function readWithin(reader, silenceMs) {
    let isSilent = false;
    const timer = setTimeout(() => {
        isSilent = true;
        reader.cancel().catch(() => {});
    }, silenceMs);
    try {
        const piece = await reader.read();
        if (isSilent) throw connectionFailed(`the stream was silent for ${silenceMs} ms`);
        return piece;
    } finally {
        clearTimeout(timer);
    }
}

/**
 * The objects of a stream's frames, until the server ends the stream. Throws connection_failed when the connection breaks; the
 * connection is closed when the iteration ends. A signal that was given to the fetch aborts it. `onEpoch` is told the epoch in the
 * ids of a log's events, before the first of them.
 */
export async function* objectsOf(response, { silenceMs, signal, onEpoch = () => {} }) {
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const parser = new FrameParser();
    try {
        for (;;) {
            const { value, done } = await readWithin(reader, silenceMs);
            if (done) return;
            const frames = parser.push(decoder.decode(value, { stream: true }));
            const epoch = epochOf(parser.lastId);
            if (epoch !== '') onEpoch(epoch);
            for (const data of frames) yield parse(data);
        }
    } catch (error) {
        if (signal?.aborted) throw signal.reason;
        throw error instanceof AtollError ? error : connectionFailed('the stream broke', error);
    } finally {
        // Not awaited: a connection that is gone would not answer.
        reader.cancel().catch(() => {});
    }
}

/** The epoch of the log in a cursor `SEQ-EPOCH`; empty: it says none. */
export function epochOf(cursor) {
    return String(cursor).split('-')[1] ?? '';
}

function parse(data) {
    try {
        return parseJson(data);
    } catch (cause) {
        throw new AtollError({ code: 'invalid_answer', detail: 'a frame of the stream is not JSON', cause });
    }
}
