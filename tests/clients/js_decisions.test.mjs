// clients/js: decisions of a person in a conversation, on permissions of the agent and hosts of its sandbox, in the form in which the server
// takes them. sandbox_stub.mjs stands in for the server.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { errorOf, keyed } from './js_lab.mjs';
import { startStub } from './sandbox_stub.mjs';

const CONVERSATION = '/v1/conversations/c1';

test('a permission is answered with an option or cancelled, and one that waits no longer is told as not found', async () => {
    const sent = [];
    const take = (path) => ({ body, response }) => {
        sent.push([path, JSON.parse(String(body))]);
        response.writeHead(204).end();
    };
    const paths = ['permissions/t1.1', 'permissions/a%2Fb', 'egress/q1'];
    const stub = await startStub({ answers: Object.fromEntries(paths.map((path) => [`POST ${CONVERSATION}/${path}`, take(path)])) });
    try {
        const conversation = keyed(stub).conversation('c1');
        assert.equal(await conversation.permissions.answer('t1.1', 'yes'), null);
        await conversation.permissions.answer('a/b', null);
        await conversation.decideEgress('q1', 'once');
        assert.deepEqual(sent, [
            ['permissions/t1.1', { optionId: 'yes' }],
            ['permissions/a%2Fb', { outcome: 'cancelled' }],
            ['egress/q1', { decision: 'once' }],
        ]);
        assert.equal((await errorOf(conversation.permissions.answer('t1.2', 'yes'))).code, 'not_found');
    } finally {
        await stub.stop();
    }
});
