// A turn with a thought, a plan, a tool and a permission is the same for each client: the stream of its POST, a WebSocket, the console's
// modules by WebSocket and by Server-Sent Events, and the pages of the log, whichever of them asked and answered.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { Api, pathOf } from '../../http/console/api.mjs';
import { Follower } from '../../http/console/follower.mjs';
import { chooseTransport } from '../../http/console/transport.mjs';
import { startServer } from '../node_support/server.mjs';
import { isDone, keyed, SOCKETS, until } from './js_lab.mjs';
import { Events } from './lab.mjs';
import { ws } from './sockets.mjs';

const AGENT = `
import json, sys
def say(event, **data): print(json.dumps({"ev": event, "data": data}), flush=True)
options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]
say("ready")
for line in sys.stdin:
    command = json.loads(line)
    if command["cmd"] == "query":
        say("thinking_delta", delta="hm")
        say("plan", entries=[{"content": "write", "priority": "high", "status": "in_progress"}])
        say("tool_use", id="c1", name="Write", input={"path": "\\u00e4.txt"})
        say("permission_request", id="p1", toolUseId="c1", options=options)
    elif command["cmd"] == "permission":
        say("tool_result", toolUseId="c1", content={"chosen": command.get("optionId")}, isError=False)
        say("text_delta", delta="written")
        say("turn_complete", result="success")
        say("done")
    elif command["cmd"] == "shutdown":
        break
`;
const TYPES = ['turn_start', 'thinking_delta', 'plan', 'tool_use', 'permission_request', 'permission_resolved', 'tool_result', 'text_delta', 'turn_complete', 'done'];

let server;
const ownFetch = globalThis.fetch;
before(async () => {
    const prepare = (folder) => {
        const file = path.join(folder, 'agents.json');
        writeFileSync(file, JSON.stringify({ agents: [{ name: 'asker', argv: ['python3', '-c', AGENT] }] }));
        return ['--agents-file', file];
    };
    server = await startServer({ prepare });
    // The console's paths are relative to its page.
    globalThis.fetch = (target, options) => ownFetch(new URL(target, `http://${server.address}`), options);
});
after(async () => {
    globalThis.fetch = ownFetch;
    await server?.stop();
});

/** The console's way of following a conversation. */
function startConsole(api, id, WebSocket) {
    const events = new Events();
    const location = { protocol: 'http:', host: server.address };
    const follower = new Follower({
        open: chooseTransport({ api, id, drained: async () => {}, location, WebSocket }),
        on: { event: (event) => events.add({ ...event }), state() {}, reset: () => assert.fail('the log was replaced') },
        timers: { set: (callback, ms) => setTimeout(callback, ms), clear: (handle) => clearTimeout(handle) },
    });
    follower.start();
    return { events, stop: () => follower.stop() };
}

/** The events of one turn, as the server told them. */
const turnOf = (list, turn) => list.filter((event) => event.turn === turn).map(({ arrived, ...event }) => event);

test('every client sees the same events of a turn, and so it is whichever of them asks', async () => {
    const conversation = await keyed(server).conversations.create({ agent: 'asker' });
    const { id } = conversation;
    const api = new Api(server.key);
    const socket = await ws.open(`ws://${server.address}${pathOf(id)}/ws?after=0`, { headers: { Authorization: `Bearer ${server.key}` } });
    const consoles = [startConsole(api, id, SOCKETS.ws), startConsole(api, id, undefined)];
    const followers = [socket.events, ...consoles.map(({ events }) => events)];
    const asked = (number) => socket.events.until('a permission', ({ list }) => list.filter(({ type }) => type === 'permission_request')[number - 1]);
    try {
        // By the stream of a POST, as a client of the API follows it.
        const stream = until(conversation.stream('go'), isDone);
        await conversation.permissions.answer((await asked(1)).data.id, 'y');
        const posted = await stream;
        // By the WebSocket alone.
        socket.message('go');
        socket.sendJson({ type: 'permission', permissionId: (await asked(2)).data.id, optionId: 'y' });
        await socket.events.turnEnd(2);
        // By the console.
        await api.json('POST', `${pathOf(id)}/messages`, { body: { content: 'go' } });
        await api.json('POST', `${pathOf(id)}/permissions/${(await asked(3)).data.id}`, { body: { optionId: 'y' } });
        for (const events of followers) await events.turnEnd(3);

        const { events: log } = await api.json('GET', `${pathOf(id)}/events?after=0`);
        const turns = [...new Set(log.map(({ turn }) => turn).filter(Boolean))];
        assert.equal(turns.length, 3);
        for (const turn of turns) {
            const told = turnOf(log, turn);
            assert.deepEqual(told.map(({ type }) => type), TYPES);
            assert.deepEqual(told.map(({ seq }) => seq), told.map((_, i) => told[0].seq + i));
            for (const events of followers) assert.deepEqual(turnOf(events.list, turn), told);
        }
        assert.deepEqual(posted, turnOf(log, turns[0]));
        // The turns differ in who asked, with which key of a retry, and in numbers and times.
        const what = (turn) => turnOf(log, turn).map(({ type, data: { by, idempotencyKey, ...data } }) => ({ type, data }));
        assert.deepEqual(what(turns[1]), what(turns[0]));
        assert.deepEqual(what(turns[2]), what(turns[0]));
    } finally {
        for (const one of consoles) one.stop();
        socket.end();
        await conversation.delete();
    }
});
