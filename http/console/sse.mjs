// The framing of Server-Sent Events (HTML standard, section 9.2), fed with text as it arrives. Bounded: an event that
// grows beyond the limit throws. Not here: connecting, JSON.

const MAX_EVENT = 32 * 1024 * 1024; // characters; the server's own bound on an event is far below

export class SseParser {
    #rest = ''; // the beginning of a line
    #data = [];
    #size = 0;
    #type = '';
    #id = '';
    #started = false;
    #carriage = false;
    #onEvent;
    #onComment;

    /** `onEvent({type, id, data})` for each event, `onComment()` for each comment line, such as a heartbeat. */
    constructor(onEvent, onComment = () => {}) {
        this.#onEvent = onEvent;
        this.#onComment = onComment;
    }

    feed(text) {
        if (text === '') return;
        if (!this.#started) {
            this.#started = true;
            if (text[0] === '\ufeff') text = text.slice(1);
        }
        if (this.#carriage && text[0] === '\n') text = text.slice(1);
        this.#carriage = false;
        let from = 0;
        const line = /\r\n|\r|\n/g;
        for (let end = line.exec(text); end !== null; end = line.exec(text)) {
            this.#line(this.#rest + text.slice(from, end.index));
            this.#rest = '';
            from = end.index + end[0].length;
            // The \n of a \r\n may come with the next piece.
            if (end[0] === '\r' && from === text.length) this.#carriage = true;
        }
        this.#rest += text.slice(from);
        if (this.#rest.length + this.#size > MAX_EVENT) throw new Error('an event without end');
    }

    #line(line) {
        if (line === '') return this.#dispatch();
        const colon = line.indexOf(':');
        if (colon === 0) return this.#onComment();
        const field = colon < 0 ? line : line.slice(0, colon);
        let value = colon < 0 ? '' : line.slice(colon + 1);
        if (value[0] === ' ') value = value.slice(1);
        if (field === 'data') {
            this.#data.push(value);
            this.#size += value.length;
        } else if (field === 'event') this.#type = value;
        else if (field === 'id' && !value.includes('\0')) this.#id = value;
    }

    #dispatch() {
        const event = { type: this.#type || 'message', id: this.#id, data: this.#data.join('\n') };
        const has = this.#data.length > 0;
        this.#data = [];
        this.#size = 0;
        this.#type = '';
        if (has) this.#onEvent(event);
    }
}
