// EventSource clients: a browser's interface, with a conversation's events behind it.
import { createRequire } from 'node:module';
import path from 'node:path';

import { Events } from './lab.mjs';

const require = createRequire(path.join(process.env.ATOLL_CLIENT_MODULES, 'package.json'));

/** undici's, and Node's own where it has one: the same code, some releases apart. */
export const SOURCES = [{ name: "undici's EventSource", Source: require('undici').EventSource }];
if (globalThis.EventSource !== undefined) SOURCES.push({ name: "Node's EventSource", Source: globalThis.EventSource });

/** Follows a conversation with its token. `opened` counts the connections, over() resolves once it gives up by itself. */
export function followEvents(route, conversation, { Source = SOURCES[0].Source, after, token = conversation.token } = {}) {
    const from = after === undefined ? '' : `after=${after}&`;
    const source = new Source(`${route.http}${conversation.path}/events?${from}token=${token}`);
    const follower = { events: new Events(), opened: 0, errors: 0, closings: [], close: () => source.close() };
    source.addEventListener('error', () => {
        ++follower.errors;
        follower.events.changed();
    });
    follower.over = () => follower.events.until('the end of the EventSource', () => source.readyState === source.CLOSED);
    source.addEventListener('open', () => {
        ++follower.opened;
        follower.events.changed();
    });
    source.addEventListener('message', ({ data, lastEventId }) => {
        const event = JSON.parse(data);
        if (event.type !== 'stream_closed') return follower.events.add({ ...event, id: lastEventId });
        follower.closings.push(event);
        follower.events.changed();
    });
    return follower;
}
