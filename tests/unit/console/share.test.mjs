import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

import { curlOf, transcriptOf } from '../../../http/console/share.mjs';

test('a shell reads the command as one request, whatever was asked', () => {
    const content = "it's `date` $HOME \\ \"x\"\nand more";
    const command = curlOf('http://127.0.0.1:4100', { id: 'abc' }, content);
    const script = `curl() { printf '%s\\0' "$@"; }\n${command}`;
    const words = execFileSync('bash', ['-c', script], { env: { ATOLL_API_KEY: 'the-key', PATH: process.env.PATH } }).toString().split('\0');
    assert.equal(words[1], 'http://127.0.0.1:4100/v1/conversations/abc/messages');
    assert.ok(words.includes('Authorization: Bearer the-key'));
    assert.deepEqual(JSON.parse(words.at(-2)), { content });
    assert.equal(command.includes('the-key'), false);
});

test('a transcript tells what was asked and answered, and its blocks end where they should', () => {
    const at = '2026-01-31T09:05:00.000Z';
    const events = [
        { seq: 1, type: 'turn_start', at, turn: 't1', data: { content: 'ls', by: 'alice' } },
        { seq: 2, type: 'text_delta', at, turn: 't1', data: { delta: 'a ```\n', stream: 'stdout' } },
        { seq: 3, type: 'text_delta', at, turn: 't1', data: { delta: '\u001b[31mb\u001b[0m\n', stream: 'stdout' } },
        { seq: 4, type: 'turn_complete', at, turn: 't1', data: { result: 'error', exitCode: 3 } },
        { seq: 5, type: 'done', at, turn: 't1', data: {} },
    ];
    const text = transcriptOf({ title: 'A talk', agent: 'shell', id: 'abcdef' }, events);
    assert.equal(text, `# A talk\n\n## alice, ${at}\n\n\`\`\`\nls\n\`\`\`\n\n\`\`\`\`\na \`\`\`\nb\n\`\`\`\`\n\nexit 3\n`);
});

test('what a transcript leaves out does not split what an agent says', () => {
    const at = '2026-01-31T09:05:00.000Z';
    const data = [['text_delta', { delta: 'one ' }], ['plan', { entries: ['step'] }], ['text_delta', { delta: 'text, ' }], ['message', { type: 'usage' }], ['text_delta', { delta: 'whole' }]];
    const events = data.map(([type, one], index) => ({ seq: index + 1, type, at, turn: 't1', data: one }));
    assert.equal(transcriptOf({ title: 'A talk', agent: 'claude', id: 'abcdef' }, events), '# A talk\n\n```\none text, whole\n```\n');
});

test('a transcript has the tools of a turn, their differences and who allowed them', () => {
    const at = '2026-01-31T09:05:00.000Z';
    const data = [
        ['thinking_delta', { delta: 'hm' }],
        ['tool_use', { id: '1', name: 'Edit', input: { file_path: 'a.txt', old_string: 'a', new_string: 'b' } }],
        ['permission_request', { id: 'p', toolUseId: '1', options: [{ optionId: 'y', name: 'Yes', kind: 'allow_once' }] }],
        ['permission_resolved', { id: 'p', outcome: 'allowed', reason: 'answered', optionId: 'y' }],
        ['tool_result', { toolUseId: '1', content: 'written', isError: false }],
    ];
    const events = data.map(([type, one], index) => ({ seq: index + 1, type, at, turn: 't1', data: one }));
    const text = transcriptOf({ title: 'A talk', agent: 'claude', id: 'abcdef' }, events);
    assert.equal(text, '# A talk\n\nTool Edit:\n\n```\na.txt\n-a\n+b\n```\n\n*Allowed: somebody chose “Yes”.*\n\ndone:\n\n```\nwritten\n```\n');
});
