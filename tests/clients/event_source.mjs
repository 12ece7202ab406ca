// EventSource clients: a browser's interface, with a conversation's events behind it.
import { createRequire } from 'node:module';
import path from 'node:path';

import { Events } from './lab.mjs';

const require = createRequire(path.join(process.env.ATOLL_CLIENT_MODULES, 'package.json'));

/** undici's, and Node's own where it has one: the same code, some releases apart. */
export const SOURCES = [{ name: "undici's EventSource", Source: require('undici').EventSource }];
if (globalThis.EventSource !== undefined) SOURCES.push({ name: "Node's EventSource", Source: globalThis.EventSource });

const TYPES = [
    'session_start', 'text_delta', 'thinking_delta', 'tool_use', 'tool_result', 'message', 'turn_complete', 'error', 'done',
    'sandbox_ready', 'sandbox_paused', 'sandbox_resumed', 'sandbox_terminated', 'output_truncated', 'resource_warning',
];

/** Follows a conversation with its token. `opened` counts the connections, over() resolves once it gives up by itself. */
export function followEvents(route, conversation, { Source = SOURCES[0].Source, after, token = conversation.token } = {}) {
    const from = after === undefined ? '' : `after=${after}&`;
    const source = new Source(`${route.http}${conversation.path}/events?${from}token=${token}`);
    const follower = { events: new Events(), opened: 0, closings: [], close: () => source.close() };
    source.addEventListener('error', () => follower.events.changed());
    follower.over = () => follower.events.until('the end of the EventSource', () => source.readyState === source.CLOSED);
    source.addEventListener('open', () => {
        ++follower.opened;
        follower.events.changed();
    });
    for (const type of TYPES) {
        // A broken connection is an `error`, too, but has no data.
        source.addEventListener(type, ({ data, lastEventId }) => {
            if (data === undefined) return;
            follower.events.add({ ...JSON.parse(data), id: lastEventId });
        });
    }
    source.addEventListener('stream_closed', ({ data }) => {
        follower.closings.push(JSON.parse(data));
        follower.events.changed();
    });
    return follower;
}
