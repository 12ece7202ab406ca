// How a conversation's events arrive. Both ways have one interface, that of Follower's `open`:
//     open(after, {onOpen, onActivity, onEvent, onEnd}) -> a function that ends it
// `onEnd({code, detail, logEpoch?})` carries the server's code where there is one, and the epoch of its log. A WebSocket is used where the server gives
// tokens for one; else, and where a WebSocket does not get through, Server-Sent Events over fetch, which can send the
// key as a header.
import { ApiError, pathOf, problemOf } from './api.mjs';
import { SseParser } from './sse.mjs';

// A WebSocket that never opened so often is not worth another attempt.
const MAX_FAILED_OPENS = 2;
// The server ends the stream when its token expires, and the next one begins with a new token.
const TOKEN_SECONDS = 600;
// Close codes of a WebSocket whose token the server refuses.
const REFUSED_TOKEN = [4401, 4403];

/** Events by Server-Sent Events. `drained()` resolves when more can be taken in. */
export function openSse({ api, id, drained }, after, on) {
    const abort = new AbortController();
    const run = async () => {
        let end = { code: '', detail: 'The connection ended.' };
        const parser = new SseParser(
            (frame) => {
                const value = JSON.parse(frame.data);
                if (value.type === 'stream_closed') end = { code: String(value.code), detail: String(value.detail), logEpoch: value.logEpoch };
                else on.onEvent(value);
            },
            () => on.onActivity(),
        );
        try {
            const headers = { Accept: 'text/event-stream' };
            const response = await api.fetch('GET', `${pathOf(id)}/events?after=${after}`, { headers, signal: abort.signal });
            if (!response.headers.get('Content-Type')?.startsWith('text/event-stream')) throw await problemOf(response);
            on.onOpen({ heartbeats: true });
            const reader = response.body.getReader();
            const decoder = new TextDecoder();
            for (;;) {
                const { value, done } = await reader.read();
                if (done) break;
                on.onActivity();
                parser.feed(decoder.decode(value, { stream: true }));
                await drained();
            }
        } catch (error) {
            if (abort.signal.aborted) return;
            if (error instanceof ApiError) end = { code: error.code, detail: error.message };
        }
        if (!abort.signal.aborted) on.onEnd(end);
        abort.abort();
    };
    run();
    return () => abort.abort();
}

/** Events by WebSocket, with a token that is good for reading this conversation and nothing else. */
export function openWebSocket({ api, id, location, WebSocket: Socket }, after, on) {
    let closed = false;
    let socket = null;
    const finish = (end) => {
        if (closed) return;
        closed = true;
        on.onEnd(end);
    };
    const run = async () => {
        let given;
        try {
            given = await api.json('POST', `${pathOf(id)}/tokens`, { body: { ttlSeconds: TOKEN_SECONDS, scope: 'read' } });
        } catch (error) {
            return finish({ code: error.code ?? '', detail: error.message, status: error.status ?? 0, from: 'tokens' });
        }
        if (closed) return;
        const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
        const query = `after=${after}&token=${encodeURIComponent(given.token)}`;
        let opened = false;
        let end = null;
        try {
            socket = new Socket(`${scheme}//${location.host}${pathOf(id)}/ws?${query}`);
        } catch {
            return finish({ code: '', detail: 'No WebSocket can be made.', from: 'handshake' });
        }
        socket.onopen = () => {
            opened = true;
            // Pings do not reach a page: silence says nothing here.
            if (!closed) on.onOpen({ heartbeats: false });
        };
        socket.onmessage = (message) => {
            if (closed) return;
            const value = parsed(message.data);
            if (value === null) return finish({ code: '', detail: 'The server sent what is no event.' });
            on.onActivity();
            if (typeof value.seq === 'number') on.onEvent(value);
            // Without a seq it is about the stream, not of the log.
            else if (typeof value.code === 'string') end = { code: value.code, detail: String(value.detail ?? '') };
        };
        socket.onclose = (event) => {
            const told = end ?? parsed(String(event.reason ?? '')) ?? {};
            const code = typeof told.code === 'string' ? told.code : '';
            const detail = typeof told.detail === 'string' ? told.detail : '';
            const refused = REFUSED_TOKEN.includes(event.code) && code !== 'token_expired';
            finish({ code, detail, logEpoch: told.logEpoch, from: refused ? 'token' : opened ? 'stream' : 'handshake' });
        };
    };
    run();
    return () => {
        closed = true;
        if (socket !== null) socket.close();
    };
}

function parsed(text) {
    try {
        const value = JSON.parse(text);
        return value !== null && typeof value === 'object' ? value : null;
    } catch {
        return null;
    }
}

/**
 * `open` of the better transport: WebSocket until it shows that the server has none or that none gets through.
 * `context`: {api, id, drained, location, WebSocket}. `onChoice('websocket' | 'sse')` tells which one is tried.
 */
export function chooseTransport(context, onChoice = () => {}) {
    let useSse = typeof context.WebSocket !== 'function';
    let failedOpens = 0;
    return (after, on) => {
        let close = null;
        let closed = false;
        const sse = () => {
            onChoice('sse');
            close = openSse(context, after, on);
        };
        if (useSse) {
            sse();
            return () => close();
        }
        onChoice('websocket');
        const onOpen = (how) => {
            failedOpens = 0;
            on.onOpen(how);
        };
        const onEnd = (end) => {
            // 404 also means that the conversation is gone: the other way tells.
            // A new token that is refused was not made by the server that the WebSocket reaches.
            const noRoute = end.from === 'token' || (end.from === 'tokens' && (end.status === 404 || end.status === 405));
            if (end.from === 'handshake') ++failedOpens;
            if (!noRoute && failedOpens < MAX_FAILED_OPENS) return on.onEnd(end);
            useSse = true;
            if (!closed) sse();
        };
        close = openWebSocket(context, after, { ...on, onOpen, onEnd });
        return () => {
            closed = true;
            close();
        };
    };
}
