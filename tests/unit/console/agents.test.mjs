import assert from 'node:assert/strict';
import { test } from 'node:test';

import { aboutAgent, agentChoices, firstAgent, missingAgents } from '../../../http/console/agents.mjs';

const agents = [
    { name: 'codex', adapter: 'acp', installed: false, reason: 'its folder is not there', setup: 'scripts/setup --agents codex' },
    { name: 'shell', adapter: 'built-in', installed: true },
    { name: 'claude', adapter: 'stream-json', installed: true },
];

test('agents that are not installed come last, cannot be chosen, and say how they are installed', () => {
    assert.deepEqual(agentChoices(agents), [['shell', 'shell', false], ['claude', 'claude', false], ['codex', 'codex – not installed', true]]);
    assert.deepEqual(missingAgents(agents), [{ name: 'codex', why: 'its folder is not there', command: 'scripts/setup --agents codex' }]);
    assert.deepEqual(missingAgents([{ name: 'a', installed: false }]), [{ name: 'a', why: '', command: '' }]);
});

test('the agent of before is chosen again, else the default, if it is installed', () => {
    assert.equal(firstAgent(agents, 'claude', 'shell'), 'claude');
    assert.equal(firstAgent(agents, 'codex', 'shell'), 'shell');
    assert.equal(firstAgent(agents, null, 'codex'), 'shell');
    assert.equal(firstAgent([], null, 'shell'), 'shell');
});

test('an agent is described by how it is spoken to', () => {
    assert.equal(aboutAgent(agents, 'shell'), 'shell: part of the server.');
    assert.match(aboutAgent(agents, 'claude'), /coding agent/);
    assert.match(aboutAgent([{ name: 'demo', adapter: 'lines' }], 'demo'), /the server's own protocol/);
    assert.equal(aboutAgent([{ name: 'a', adapter: 'constructor' }], 'a'), '');
    assert.equal(aboutAgent(agents, 'no such'), '');
});
