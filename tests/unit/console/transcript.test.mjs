import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Transcript } from '../../../http/console/transcript.mjs';

const at = '2026-01-01T00:00:00.000Z';

function apply(...events) {
    const transcript = new Transcript();
    let seq = 0;
    const operations = events.flatMap(([type, data = {}, turn = null]) => transcript.apply({ seq: ++seq, type, at, turn, data }));
    return { transcript, operations: operations.filter(({ op }) => op !== 'turn') };
}
const ops = (...events) => apply(...events).operations;

test('the deltas of a turn join until something else comes between', () => {
    const list = ops(
        ['text_delta', { delta: 'a' }, 't1'],
        ['text_delta', { delta: 'b' }, 't1'],
        ['thinking_delta', { delta: 'c' }, 't1'],
        ['tool_use', { id: '1', name: 'n', input: {} }, 't1'],
        ['text_delta', { delta: 'd' }, 't1'],
    );
    const blocks = list.filter(({ op }) => op === 'text').map(({ block, text }) => [block, text]);
    assert.equal(blocks[0][0], blocks[1][0]);
    assert.equal(new Set(blocks.map(([block]) => block)).size, 3);
});

test('what a command writes to stderr is told from the rest', () => {
    const list = ops(
        ['text_delta', { delta: 'a', stream: 'stdout' }, 't1'],
        ['text_delta', { delta: 'b', stream: 'stderr' }, 't1'],
        ['text_delta', { delta: 'c', stream: 'stderr' }, 't1'],
        ['text_delta', { delta: 'd' }, 't1'],
    );
    assert.deepEqual(list.map(({ kind }) => kind), ['text', 'stderr', 'stderr', 'text']);
    assert.equal(new Set(list.map(({ block }) => block)).size, 3);
});

test('a refused connection is a note, and the end of one neither shows nor splits the text', () => {
    const list = ops(
        ['text_delta', { delta: 'a' }, 't1'],
        ['egress_closed', { host: 'a.example', port: 443, bytesUp: 1, bytesDown: 2, ms: 3 }],
        ['text_delta', { delta: 'b' }, 't1'],
        ['egress_denied', { host: 'b.example', port: 443, reason: 'not_listed' }],
    );
    assert.deepEqual(list.map(({ op }) => op), ['text', 'text', 'note']);
    assert.equal(list[0].block, list[1].block);
    assert.match(list[2].text, /b\.example port 443: not on the list/);
});

test('an event that was applied is not applied again', () => {
    const transcript = new Transcript();
    const event = { seq: 1, type: 'text_delta', at, turn: 't1', data: { delta: 'a' } };
    assert.equal(transcript.apply(event).length, 2);
    assert.deepEqual(transcript.apply(event), []);
});

test('a hole in the log is told', () => {
    const transcript = new Transcript();
    const [first] = transcript.apply({ seq: 5, type: 'done', at, turn: null, data: {} });
    assert.match(first.text, /1 to 4/);
});

test('a turn is open from its first event to its done', () => {
    const { transcript } = apply(['turn_start', { content: 'a' }, 't1']);
    assert.equal(transcript.openTurn, 't1');
    transcript.apply({ seq: 2, type: 'done', at, turn: 't1', data: {} });
    assert.equal(transcript.openTurn, null);
});

test('a turn begins with its question', () => {
    const [question] = ops(['turn_start', { content: 'why?', by: 'eve' }, 't1']);
    assert.deepEqual(question, { op: 'question', turn: 't1', text: 'why?', by: 'eve', seq: 1 });
});

test('what happens to the sandbox during a turn is shown in its place within the turn', () => {
    const list = ops(
        ['turn_start', { content: 'a' }, 't1'],
        ['text_delta', { delta: 'a' }, 't1'],
        ['resource_warning', { resource: 'memory', used: 9, limit: 10 }],
        ['text_delta', { delta: 'b' }, 't1'],
        ['done', {}, 't1'],
        ['sandbox_paused', { reason: 'user', detail: '' }],
    );
    assert.deepEqual(list.map(({ op, turn }) => [op, turn]).slice(1, 4), [['text', 't1'], ['note', 't1'], ['text', 't1']]);
    assert.notEqual(list[1].block, list[3].block);
    assert.equal(list.at(-2).turn, null);
});

test('the end of a turn tells failure and duration', () => {
    const good = ops(['turn_complete', { result: 'success', exitCode: 0 }, 't1'], ['done', {}, 't1']);
    assert.deepEqual(good, [
        { op: 'complete', turn: 't1', result: 'success', exitCode: 0, seq: 1 },
        { op: 'end', turn: 't1', failed: false, ms: 0, seq: 2 },
    ]);
    const bad = ops(['error', { code: 'c', message: 'm' }, 't1'], ['done', {}, 't1']);
    assert.equal(bad[1].failed, true);
});

test('every type of the API is shown', () => {
    const list = ops(
        ['session_start', { agent: 'shell' }],
        ['sandbox_ready', { generation: 1 }],
        ['message', { type: 'assistant', content: [] }, 't1'],
        ['tool_result', { toolUseId: '1', content: [{ type: 'text', text: 'x' }], isError: true }, 't1'],
        ['output_truncated', { droppedBytes: 5_000_000 }, 't1'],
        ['resource_warning', { resource: 'memory', used: 9, limit: 10 }],
        ['port_opened', { port: 5173, url: 'http://localhost:30001' }],
        ['port_closed', { port: 5173 }],
        ['sandbox_paused', { reason: 'oom', detail: 'killed' }],
        ['sandbox_resumed', { generation: 2, mode: 'cold' }],
        ['sandbox_paused', { reason: 'user', mode: 'warm', detail: '' }],
        ['sandbox_resumed', { generation: 2, mode: 'warm' }],
        ['sandbox_terminated', { class: 'oom', code: 9, detail: 'd' }],
        ['something_new', { a: 1 }],
    );
    assert.ok(list.every(({ op }) => op !== undefined));
    assert.deepEqual(list.find(({ op }) => op === 'result').parts, [{ kind: 'text', text: 'x', more: 0 }]);
    assert.match(list.find(({ text }) => text?.startsWith('Output')).text, /4\.8 MB/);
    assert.equal(list.find(({ text }) => /short of memory/.test(text ?? '')).tone, 'warning');
    assert.equal(list.filter(({ text }) => text === 'Frozen. What runs in the sandbox is kept.').length, 1);
    assert.equal(list.filter(({ text }) => text === 'Resumed where it was.').length, 1);
    assert.equal(list.filter(({ op }) => op === 'changed').length, 6);
});

const MB = 1024 * 1024;

test('a warning says what is short, and bytes in MB', () => {
    const text = (resource, used, limit) => ops(['resource_warning', { resource, used, limit }])[0].text;
    assert.equal(text('memory', 60 * MB, 64 * MB), 'The sandbox runs short of memory: 60 MB of 64 MB used.');
    assert.equal(text('memory_pressure', 60 * MB, 64 * MB), 'Processes in the sandbox wait for memory: 60 MB of 64 MB used.');
    assert.equal(text('disk', 900 * MB, 1000 * MB), 'The sandbox runs short of disk: 900 MB of 1000 MB used.');
    assert.equal(text('processes', 64, 64), 'The sandbox runs short of processes: 64 of 64 used.');
    // An agent cannot write one, but an odd name breaks nothing.
    assert.match(text('constructor', 1, 2), /short of constructor: 1 of 2/);
    assert.match(text({ a: 1 }, 1, 2), /short of/);
});

const OOM = [
    ['resource_warning', { resource: 'memory', used: 60 * MB, limit: 64 * MB }],
    ['error', { code: 'oom', message: 'more than 64 MB' }, 't1'],
    ['done', {}, 't1'],
    ['sandbox_terminated', { class: 'oom', code: 9, detail: 'more than 64 MB', limitBytes: 64 * MB, peakBytes: 63.5 * MB }],
    ['port_closed', { port: 5173 }],
    ['sandbox_paused', { reason: 'oom', mode: 'cold', detail: 'more than 64 MB' }],
];

test('an end of the sandbox is one card, in MB, with all that its events tell', () => {
    const list = ops(...OOM);
    assert.match(list[0].text, /60 MB of 64 MB/);
    const [first, last] = list.filter(({ op }) => op === 'incident');
    // Its end is shown at once, and its pause goes into the same card: in place of the warning and the error.
    assert.deepEqual([first.key, first.others, last.key, last.others], [1, '2,4', 1, '2,4,6']);
    assert.equal(last.title, 'The sandbox ran out of memory.');
    assert.equal(last.raise, 'memoryMb');
    const sentences = ['More than 64 MB.', 'Limit: 64 MB, used at most: 63.5 MB.', 'The conversation is paused. The next message starts a new sandbox with the same files.'];
    assert.equal(last.text, sentences.join('\n'));
    assert.equal(list.filter(({ op, tone }) => op === 'note' && tone === 'warning').length, 1);
});

test('a warning that processes wait for memory is part of the card that tells of the end', () => {
    const waits = ['resource_warning', { resource: 'memory_pressure', used: 60 * MB, limit: 64 * MB }];
    const [first] = ops(waits, ...OOM.slice(1)).filter(({ op }) => op === 'incident');
    assert.deepEqual([first.key, first.others], [1, '2,4']);
});

test('what has its own cause, or comes later, is no part of a card', () => {
    const error = ['error', { code: 'odd', message: 'm' }, 't1'];
    const crash = [
        ['sandbox_terminated', { class: 'signalled', code: 9, detail: 'd' }],
        ['sandbox_paused', { reason: 'crash', mode: 'cold', detail: 'd' }],
    ];
    const cards = (...events) => ops(...events).filter(({ op }) => op === 'incident').map(({ key, others }) => `${key} ${others}`);
    assert.deepEqual(cards(error, ...crash), ['2 ', '2 3']);
    assert.deepEqual(cards(OOM[0], ['text_delta', { delta: 'x' }, 't1'], ...crash), ['3 ', '3 4']);
    assert.deepEqual(cards(crash[0], ['egress_closed', {}], crash[1]), ['1 ', '1 3']);
    assert.deepEqual(cards(...crash, ['sandbox_resumed', { generation: 2 }], ...crash), ['1 ', '1 2', '4 ', '4 5']);
    for (const own of ['stopped', 'killed']) assert.deepEqual(cards(['sandbox_terminated', { class: own }], ['sandbox_paused', { reason: 'user' }]), []);
    // An agent that ends takes the sandbox down with it: that it was killed is not the story.
    const [agent] = ops(['error', { code: 'agent_crashed', message: 'exit 3' }, 't1'], ['done', {}, 't1'], ['sandbox_terminated', { class: 'killed' }], ['sandbox_paused', { reason: 'crash', mode: 'cold' }]).filter(({ op }) => op === 'incident');
    assert.deepEqual([agent.key, agent.others, agent.title], [1, '3,4', 'The agent ended unexpectedly.']);
    assert.equal(agent.raise, '');
});

test('a pause without a fault is one sentence, in place of the end that it brought', () => {
    const pause = (reason, mode = 'cold') => ['sandbox_paused', { reason, mode, detail: 'the conversation was paused' }];
    const end = ['sandbox_terminated', { class: 'killed', code: 0, detail: 'the conversation was paused' }];
    const closed = ['port_closed', { port: 5173 }];
    const told = (...events) => ops(...events).filter(({ op }) => op === 'note').at(-1);
    const last = told(['port_opened', { port: 5173 }], ['port_closed', { port: 80 }], ['sandbox_ready', {}], closed, end, pause('user'));
    assert.deepEqual([last.text, last.others], ['Paused.', '4,5']);
    assert.equal(told(pause('server_restart')).text, 'Paused by a restart of the server.');
    assert.equal(told(pause('idle', 'warm')).text, 'Frozen after a while without messages. What runs in the sandbox is kept.');
    assert.equal(told(end).text, 'The sandbox ended: the conversation was paused.');
});

const leavesOf = (value) => (value !== null && typeof value === 'object' ? Object.values(value).flatMap(leavesOf) : [value]);

test('values of any type, depth and size become bounded text', () => {
    const odd = [null, 7, true, [], ['<b>'], { a: { b: 1 } }, 'x'.repeat(1_000_000)];
    for (const value of odd)
        for (const type of ['text_delta', 'tool_use', 'tool_result', 'plan', 'permission_request', 'permission_resolved', 'error', 'turn_complete', 'sandbox_paused', 'sandbox_terminated', 'port_opened', 'egress_denied']) {
            const data = { delta: value, id: value, name: value, input: value, toolUseId: value, content: value, code: value, message: value, result: value, exitCode: value, reason: value, detail: value, class: value, port: value, url: value, host: value, requests: value, title: value, details: value, entries: value, options: value, outcome: value, optionId: value };
            for (const operation of ops([type, data, 't1'], [type, value, 't1']))
                assert.ok(leavesOf(operation).every((leaf) => leaf === null || ['string', 'number', 'boolean'].includes(typeof leaf)));
        }
    const [named] = ops(['tool_use', { name: 'x'.repeat(1_000_000) }, 't1']);
    assert.ok(named.name.length < 300);
});

const later = '2026-01-01T00:00:04.000Z';
const timed = (...events) => {
    const transcript = new Transcript();
    return events.flatMap(([type, data, time], index) => transcript.apply({ seq: index + 1, type, at: time, turn: 't1', data })).filter(({ op }) => op !== 'turn');
};

test('a thought ends where something else begins, and tells how long it took', () => {
    const list = timed(['thinking_delta', { delta: 'a' }, at], ['thinking_delta', { delta: 'b' }, at], ['text_delta', { delta: 'c' }, later], ['thinking_delta', { delta: 'd' }, later], ['done', {}, later]);
    assert.deepEqual(list.map(({ op, kind, ms }) => [op, kind ?? ms]), [
        ['text', 'thinking'], ['text', 'thinking'], ['thought', 4000], ['text', 'text'], ['text', 'thinking'], ['thought', 0], ['end', 4000],
    ]);
    assert.equal(list[2].block, list[0].block);
    assert.equal(list[5].block, list[4].block);
});

test('what has no place in the answer does not split its text', () => {
    const list = ops(
        ['text_delta', { delta: 'a' }, 't1'],
        ['message', { type: 'usage' }, 't1'],
        ['plan', { entries: [] }, 't1'],
        ['something_new', {}, 't1'],
        ['text_delta', { delta: 'b' }, 't1'],
    );
    assert.equal(list[0].block, list.at(-1).block);
});

test('a plan and the todo list of claude are the same steps', () => {
    const steps = [{ content: 'look', status: 'completed', priority: 'high' }, { content: 'write', status: 'in_progress' }, { content: 'tell', status: 'pending' }];
    const [plan] = ops(['plan', { entries: steps }, 't1']);
    assert.deepEqual(plan.steps, [
        { text: 'look', state: 'done', isUrgent: true },
        { text: 'write', state: 'running', isUrgent: false },
        { text: 'tell', state: 'open', isUrgent: false },
    ]);
    const [tool, todo] = ops(['tool_use', { id: '1', name: 'TodoWrite', input: { todos: steps } }, 't1']);
    assert.deepEqual([tool.op, todo.steps], ['tool', plan.steps]);
    const [long] = ops(['plan', { entries: Array(1000).fill(steps[0]) }, 't1']);
    assert.deepEqual([long.steps.length, long.hidden], [100, 900]);
});

test('a decision names the option that was chosen', () => {
    const options = [{ optionId: 'y', name: 'Allow', kind: 'allow_once' }, { optionId: 'n', name: 'No, never', kind: 'reject_always' }];
    const asked = (id) => ['permission_request', { id, toolUseId: '1', options }, 't1'];
    const resolved = (id, outcome, reason, optionId) => ['permission_resolved', { id, outcome, reason, optionId }, 't1'];
    const list = ops(asked('a'), asked('b'), resolved('b', 'denied', 'answered', 'n'), resolved('a', 'allowed', 'answered', 'y'), resolved('c', 'denied', 'timeout'));
    assert.deepEqual(list.slice(0, 2).map(({ op, id, tool }) => [op, id, tool]), [['asked', 'a', '1'], ['asked', 'b', '1']]);
    assert.deepEqual(list.slice(2).map(({ id, text, isAllowed }) => [id, text, isAllowed]), [
        ['b', 'Refused: somebody chose “No, never”.', false],
        ['a', 'Allowed: somebody chose “Allow”.', true],
        ['c', 'Refused: nobody answered in time.', false],
    ]);
});
