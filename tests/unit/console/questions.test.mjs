import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Questions, choicesOf, decisionText, questionText } from '../../../http/console/questions.mjs';

const host = (id, name) => ({ type: 'egress_request', data: { id, host: name, port: 443 } });
const OPTIONS = [{ optionId: 'y', name: 'Yes', kind: 'allow_once' }, { optionId: 'n', name: 'No', kind: 'reject_once' }];
const permission = (id, toolUseId = 'tool', options = OPTIONS, turn = 't1') => ({ type: 'permission_request', seq: 9, turn, data: { id, toolUseId, options } });
const shown = (questions) => questions.shown.map(({ id, title }) => [id, title]);
const after = (...events) => {
    const questions = new Questions();
    for (const event of events) questions.apply(event);
    return questions;
};

test('hosts wait until they are decided, or their generation ends', () => {
    const questions = new Questions();
    assert.equal(questions.apply(host('q1', 'a.example')), true);
    assert.equal(questions.apply(host('q2', 'b.example')), true);
    assert.deepEqual(shown(questions), [['q1', 'a.example:443'], ['q2', 'b.example:443']]);
    assert.equal(questions.apply({ type: 'egress_resolved', data: { id: 'q1', decision: 'once' } }), true);
    assert.equal(questions.apply({ type: 'egress_resolved', data: { id: 'q1', decision: 'once' } }), false);
    assert.deepEqual(shown(questions), [['q2', 'b.example:443']]);
    assert.equal(questions.apply({ type: 'sandbox_paused', data: {} }), true);
    assert.deepEqual(questions.shown, []);
    for (const data of [null, {}, { id: 7, host: 'a', port: 1 }, { id: 'q', host: 7, port: 1 }, { id: 'q', host: 'a', port: '1' }])
        assert.equal(questions.apply({ type: 'egress_request', data }), false);
    assert.equal(questionText(host('q1', 'a.example')), 'A program inside asks for a.example port 443.');
    assert.equal(questionText({ type: 'egress_resolved', data: { id: 'q1', decision: 'always' } }), 'Allowed from now on.');
});

test('a permission waits with the words of its tool, until it is decided or its turn ends', () => {
    const use = { type: 'tool_use', seq: 4, turn: 't1', data: { id: 'tool', name: 'Bash', input: { command: 'ls' } } };
    const questions = after(use, permission('p1'), permission('p2', 'other'), host('p1', 'a.example'));
    const [first, second] = questions.shown;
    assert.deepEqual([first.title, first.detail, first.shownAt], ['Bash', 'ls', 4]);
    // Where no tool is known, its own event is what can be shown.
    assert.deepEqual([second.title, second.shownAt], ['a tool', 9]);
    // A host and a permission may have the same id.
    assert.equal(questions.apply({ type: 'permission_resolved', data: { id: 'p1' } }), true);
    assert.deepEqual(shown(questions), [['p2', 'a tool'], ['p1', 'a.example:443']]);
    assert.equal(questions.apply({ type: 'done', turn: 't0', data: {} }), false);
    assert.equal(questions.apply({ type: 'done', turn: 't1', data: {} }), true);
    assert.deepEqual(shown(questions), [['p1', 'a.example:443']]);
    for (const data of [null, {}, { id: 7 }, { id: '' }, { id: 'x'.repeat(513) }]) assert.equal(questions.apply({ type: 'permission_request', data }), false);
});

test("the choices are the agent's, told apart by their kinds, and there is always one that refuses", () => {
    const [{ choices }] = after(permission('p')).shown;
    assert.deepEqual(choices.map(({ value, text, isReject }) => [value, text, isReject]), [['y', 'Yes', false], ['n', 'No', true]]);
    const [onlyYes] = after(permission('p', 'tool', OPTIONS.slice(0, 1))).shown;
    assert.deepEqual(onlyYes.choices.at(-1), { value: null, text: 'Refuse', means: 'Cancel', isReject: true });
    const odd = [null, 7, { optionId: 7, kind: 'allow_once' }, { optionId: 'a', kind: 'constructor' }, { optionId: 'b', name: '\u202e', kind: 'allow_always' }, { optionId: 'c', name: '', kind: 'reject_always' }];
    assert.deepEqual(choicesOf(odd).map(({ value, text, means }) => [value, text, means]), [['b', '<U+202E>', 'Always allow'], ['c', 'Always reject', 'Always reject']]);
    assert.deepEqual(choicesOf([{ optionId: 'x'.repeat(513), kind: 'allow_once' }]), []);
    assert.equal(choicesOf(Array.from({ length: 100 }, (_, index) => ({ ...OPTIONS[0], optionId: `${index}` }))).length, 16);
    // The server takes the first of an id, and counts kinds that it does not know.
    assert.deepEqual(choicesOf([OPTIONS[1], { ...OPTIONS[0], optionId: 'n' }]).map(({ value, text }) => [value, text]), [['n', 'No']]);
    assert.deepEqual(choicesOf([{ optionId: 'y', kind: 'new' }, ...OPTIONS]).map(({ value }) => value), ['n']);
    const unknown = Array.from({ length: 15 }, (_, index) => ({ optionId: `${index}`, kind: 'new' }));
    assert.deepEqual(choicesOf([...unknown, ...OPTIONS]).map(({ value }) => value), ['y']);
    assert.ok(choicesOf([{ optionId: 'a', kind: 'allow_once', name: 'x'.repeat(100_000) }])[0].text.length < 150);
});

test('what is frozen still waits, and nothing of an earlier generation does', () => {
    const questions = after(permission('p'), host('q', 'a.example'));
    assert.equal(questions.apply({ type: 'sandbox_paused', data: { mode: 'warm' } }), false);
    assert.equal(questions.shown.length, 2);
    assert.equal(questions.apply({ type: 'sandbox_paused', data: null }), true);
    assert.deepEqual(questions.shown, []);
});

test('what was asked and decided before the log was opened is never news', () => {
    const read = (...events) => {
        const questions = new Questions(events.length);
        return events.map((event, index) => questions.apply({ ...event, seq: index + 1 }));
    };
    const resolved = { type: 'permission_resolved', data: { id: 'p' } };
    const text = { type: 'text_delta', data: { delta: 'x' } };
    assert.deepEqual(read(permission('p'), resolved, text), [false, false, false]);
    // A change that waits at the end is told, even if the end itself changes nothing.
    assert.deepEqual(read(permission('p'), resolved, permission('q'), text), [false, false, false, true]);
    const questions = new Questions(5);
    assert.equal(questions.apply(permission('p')), true);
    assert.equal(questions.apply({ ...text, seq: 10 }), false);
});

test('a decision is told with its reason', () => {
    const told = (outcome, reason) => decisionText({ outcome, reason });
    assert.equal(told('allowed', 'policy'), 'Allowed by the policy of the agent.');
    assert.equal(told('denied', 'unattended'), 'Refused: nobody followed the conversation.');
    assert.equal(told('cancelled', 'turn_ended'), 'Cancelled: its turn ended before an answer.');
    assert.equal(told('cancelled', 'withdrawn'), 'Cancelled: the agent took it back.');
    assert.equal(told('denied', 'answered'), 'Refused: somebody answered.');
    assert.equal(told({}, 7), 'Cancelled.');
});

test('a request that comes again while it waits changes nothing, and what waits is bounded', () => {
    const questions = after(permission('p'));
    assert.equal(questions.apply(permission('p', 'tool', [{ optionId: 'other', name: 'Other', kind: 'allow_once' }])), false);
    assert.deepEqual(questions.shown[0].choices.map(({ value }) => value), ['y', 'n']);
    for (let index = 0; index < 1000; ++index) questions.apply(permission(`p${index}`));
    assert.ok(questions.shown.length < 100);
});
