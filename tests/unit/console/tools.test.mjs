import assert from 'node:assert/strict';
import { test } from 'node:test';

import { callOf, resultParts, textOf } from '../../../http/console/tools.mjs';

const call = (name, input, more = {}) => callOf({ id: '1', name, input, ...more });
const texts = (parts) => parts.map(({ kind, text, path, added, removed }) => (kind === 'diff' ? [path, added, removed] : text));

test('a line says what a tool does', () => {
    const brief = (...tool) => [call(...tool).name, call(...tool).brief];
    assert.deepEqual(brief('Bash', { command: 'ls\n  -la', description: 'lists' }), ['Bash', 'ls -la']);
    assert.deepEqual(brief('Read', { file_path: '/a.txt', limit: 3 }), ['Read', '/a.txt']);
    assert.deepEqual(brief('execute', { command: ['bash', '-lc', 'ls'] }, { title: 'List files' }), ['execute', 'List files']);
    assert.deepEqual(brief('other', { query: 'atoll' }, { title: 'Search' }), ['Search', 'atoll']);
    assert.deepEqual(brief('odd', { a: [1] }), ['odd', '{"a":[1]}']);
    assert.deepEqual(brief('none', {}), ['none', '']);
    assert.ok(call('Bash', { command: 'x'.repeat(1_000_000) }).brief.length < 300);
});

test('an edit is a difference, whatever its agent calls the members', () => {
    for (const [path, before, after] of [['file_path', 'old_string', 'new_string'], ['filePath', 'oldString', 'newString'], ['path', 'old_str', 'new_str'], ['path', 'oldText', 'newText']])
        assert.deepEqual(texts(call('Edit', { [path]: 'a.txt', [before]: 'one\ntwo', [after]: 'one\nzwei' }).parts), [['a.txt', 1, 1]]);
    const several = [{ old_string: 'a', new_string: 'b' }, { old_string: 'c', new_string: '', replace_all: true }];
    assert.deepEqual(texts(call('MultiEdit', { file_path: 'a', edits: several }).parts), [['a', 1, 1], ['a', 0, 1], '{\n  "replace_all": true\n}']);
    assert.deepEqual(texts(call('Write', { file_path: 'a', content: 'x\ny\n' }).parts), [['a', 2, 0]]);
    // An agent of ACP may tell the change beside the input.
    assert.deepEqual(texts(call('edit', {}, { details: [{ type: 'diff', path: 'a', oldText: 'x', newText: 'y' }] }).parts), [['a', 1, 1]]);
    // Other inputs are shown as they are.
    assert.equal(call('search', { path: 'a', content: 'x' }).parts[0].kind, 'text');
    assert.equal(call('Edit', { edits: [7] }).parts[0].kind, 'text');
    // Nothing that an input holds is left out.
    const all = call('Edit', { path: 'a', file_path: 'b', old_string: '1', oldText: '2', new_string: '3', command: 'rm', more: 4 });
    for (const value of ['b', '1', '3', '"a"', '"2"', 'rm', '4']) assert.ok(textOf(all.parts).includes(value), value);
});

test('the content of a result is texts, differences, and words for the rest', () => {
    const parts = resultParts({
        content: [
            { type: 'text', text: 'a' },
            { type: 'content', content: { type: 'text', text: 'b' } },
            { type: 'diff', path: 'p', oldText: null, newText: 'x\n' },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
            { type: 'resource_link', uri: 'javascript:x' },
            { type: 'resource', resource: { uri: 'file:///a', text: 'inside' } },
            { type: 'terminal', terminalId: 't' },
            { type: 'new_kind', a: 1 },
        ],
    });
    assert.deepEqual(texts(parts), [
        'a\nb',
        ['p', 1, 0],
        'A picture, image/png, 3 bytes: not shown here.',
        'A link to javascript:x',
        'file:///a',
        'inside',
        "The output of the agent's terminal t.",
        '{\n  "type": "new_kind",\n  "a": 1\n}',
    ]);
    assert.deepEqual(texts(resultParts({ content: { output: 'done', metadata: { exit: 0 } } })), ['done\n{\n  "metadata": {\n    "exit": 0\n  }\n}']);
    assert.deepEqual(texts(resultParts({ content: 'a', details: [{ type: 'diff', path: 'p', oldText: 'a', newText: 'b' }] })), ['a', ['p', 1, 1]]);
    assert.deepEqual(resultParts({ content: null }), []);
});

test('a result of any size is bounded, and says what is missing', () => {
    const [{ text, more }] = resultParts({ content: 'x'.repeat(1_000_000) });
    assert.deepEqual([text.length, more], [65_536, 1_000_000 - 65_536]);
    const many = resultParts({ content: Array(1000).fill({ type: 'image' }) });
    assert.deepEqual([many.length, many.at(-1).text], [51, '950 parts more are in the log.']);
    const diff = (index) => ({ type: 'diff', path: `${index}`, oldText: '', newText: 'line\n'.repeat(5000) });
    for (const parts of [resultParts({ content: Array.from({ length: 800 }, (_, index) => diff(index)) }), call('edit', {}, { details: Array(50).fill(diff(0)) }).parts]) {
        assert.ok(parts.length <= 51, parts.length);
        const lines = parts.flatMap((part) => part.lines ?? []).length;
        assert.ok(lines > 0 && lines <= 2100, lines);
    }
    let deep = { type: 'text', text: 'x' };
    for (let level = 0; level < 60; ++level) deep = { type: 'content', content: deep };
    assert.equal(resultParts({ content: [deep] }).length, 1);
});
