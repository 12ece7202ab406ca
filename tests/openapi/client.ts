// A small client. Its types come from the server's OpenAPI document (`schema`), and each line after an
// "expect-error" is wrong on purpose: types that let it pass would mean nothing.
import createClient from 'openapi-fetch';

import type { components, paths } from './schema';

type Conversation = components['schemas']['Conversation'];
type Event = components['schemas']['Event'];
type ClientFrame = components['schemas']['ClientFrame'];
type ServerFrame = components['schemas']['WebSocketFrames']['server'];

declare const process: { env: Record<string, string | undefined> };

const api = createClient<paths>({
    baseUrl: process.env['ATOLL_URL'] ?? '',
    headers: { Authorization: `Bearer ${process.env['ATOLL_KEY'] ?? ''}` },
});

/** Every type of event, told apart by `type`; a type that is missing here is an error of the compiler. */
function describe(event: Event): string {
    switch (event.type) {
        case 'session_start':
            return `${event.data.agent} in ${event.data.sandboxId}`;
        case 'turn_start':
            return event.data.content;
        case 'text_delta':
            return event.data.delta + (event.data.stream === 'stderr' ? ' (stderr)' : '');
        case 'thinking_delta':
            return event.data.delta;
        case 'tool_use':
            return `${event.data.name} ${JSON.stringify(event.data.input)}`;
        case 'tool_result':
            return event.data.isError ? 'failed' : JSON.stringify(event.data.content);
        case 'message':
            return Object.keys(event.data).join();
        case 'turn_complete':
            return `${event.data.result} ${event.data.exitCode ?? 0}`;
        case 'error':
            return `${event.data.code}: ${event.data.message}`;
        case 'done':
            return '';
        case 'sandbox_ready':
            return event.data.generation.toFixed();
        case 'sandbox_paused':
            return `${event.data.reason ?? ''} ${event.data.mode}`;
        case 'sandbox_resumed':
            return event.data.mode === 'warm' ? 'thawed' : 'started';
        case 'sandbox_terminated':
            return `${event.data.class} ${event.data.limitBytes ?? 0}`;
        case 'output_truncated':
            return event.data.droppedBytes.toFixed();
        case 'resource_warning':
            return `${event.data.resource} ${event.data.used / event.data.limit}`;
        case 'port_opened':
            return event.data.url ?? event.data.port.toFixed();
        case 'port_closed':
            return event.data.port.toFixed();
        case 'preview_changed':
            return event.data.url ?? '';
        case 'egress_denied':
            return `${event.data.host}:${event.data.port.toFixed()} ${event.data.reason} ${(event.data.requests ?? 1).toFixed()}`;
        case 'egress_closed':
            return `${event.data.host} ${event.data.route ?? ''} ${(event.data.bytesUp + event.data.bytesDown) / event.data.ms} ${event.data.omitted?.toFixed() ?? ''}`;
        case 'egress_request':
            return `${event.data.id} ${event.data.host}:${event.data.port.toFixed()}`;
        case 'egress_resolved':
            return `${event.data.id} ${event.data.decision}`;
        case 'permission_request':
            return `${event.data.id} ${event.data.toolUseId} ${event.data.options.length.toFixed()}`;
        case 'permission_resolved':
            return `${event.data.id} ${event.data.outcome} ${event.data.reason} ${event.data.optionId ?? ''}`;
        case 'plan':
            return event.data.entries.length.toFixed();
        case 'files_changed':
            return `${event.data.changedFiles.join(' ')} ${event.data.toolCallId ?? ''}`;
        case 'tool_progress':
            return `${event.data.toolName} ${event.data.status} ${event.data.progress?.toFixed(2) ?? ''} ${event.data.message}`;
        default: {
            const forgotten: never = event;
            return forgotten;
        }
    }
}

/** A frame of a WebSocket: an answer or an event. */
export function answered(frame: ServerFrame): string | number | undefined {
    switch (frame.type) {
        case 'accepted':
            return frame.id;
        case 'rejected':
            return frame.code === 'turn_in_progress' ? undefined : frame.detail;
        default:
            return frame.seq;
    }
}

export function wrong(event: Event, conversation: Conversation): unknown[] {
    // @ts-expect-error: data of another type of event
    const delta = event.type === 'sandbox_ready' ? event.data.delta : '';
    // @ts-expect-error: there is no such type
    const news = event.type === 'news';
    // @ts-expect-error: a number
    const seq: string = event.seq;
    // @ts-expect-error: there is no such status
    const status = conversation.status === 'asleep';
    // @ts-expect-error: null where no turn is open
    const turn = conversation.openTurn.turn;
    // @ts-expect-error: a message needs content
    const frame: ClientFrame = { type: 'message' };
    // @ts-expect-error: an interrupt has none
    const other: ClientFrame = { type: 'interrupt', content: 'x' };
    return [delta, news, seq, status, turn, frame, other];
}

export async function wrongRequests(): Promise<void> {
    // @ts-expect-error: memory is a number
    await api.POST('/v1/conversations', { body: { limits: { memoryMb: '512' } } });
    // @ts-expect-error: there is no such field
    const body: components['schemas']['CreateConversation'] = { agnet: 'echo' };
    await api.POST('/v1/conversations', { body });
    // @ts-expect-error: there is no such route
    await api.GET('/v1/conversation');
    // @ts-expect-error: the id is missing
    await api.GET('/v1/conversations/{id}');
}

/** The events of a turn as they come. */
async function* follow(stream: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
    const decoder = new TextDecoder();
    const reader = stream.getReader();
    let text = '';
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const frames = (text + decoder.decode(part.value, { stream: true })).split('\n\n');
        text = frames.pop() ?? '';
        for (const frame of frames) {
            const data = frame.split('\n').find((line) => line.startsWith('data: '));
            if (data !== undefined) yield JSON.parse(data.slice(6)) as Event;
        }
    }
}

async function main(): Promise<void> {
    const made = await api.POST('/v1/conversations', {
        params: { header: { 'Idempotency-Key': 'one' } },
        body: { agent: 'echo', metadata: { color: 'blue', depth: [1, 2] }, limits: { memoryMb: 256 } },
    });
    if (made.error !== undefined) throw new Error(`${made.error.code}: ${made.error.detail}`);
    const conversation: Conversation = made.data;
    console.log(`${conversation.status} in ${conversation.sandboxId}`);
    const path = { id: conversation.id };
    const turn = await api.POST('/v1/conversations/{id}/messages', {
        params: { path },
        headers: { Accept: 'text/event-stream' },
        body: { content: [{ type: 'text', text: 'hello' }] },
        parseAs: 'stream',
    });
    // `data` is this stream, but its type does not say so where a route has several media types.
    if (turn.error !== undefined || turn.response.body === null) throw new Error('no turn');
    for await (const event of follow(turn.response.body)) console.log(`${event.seq} ${event.type}: ${describe(event)}`);
    const page = await api.GET('/v1/conversations/{id}/events', { params: { path, query: { after: 0, limit: 10_000 } } });
    if (page.data === undefined || typeof page.data === 'string') throw new Error('no page');
    for (const event of page.data.events.slice(-1)) console.log(`last: ${event.type}`);
    await api.DELETE('/v1/conversations/{id}', { params: { path } });
    const refused = await api.POST('/v1/conversations', { body: { agent: 'nobody' } });
    console.log(`refused: ${refused.error?.code} at ${refused.error?.pointer}`);
}

await main();
