import assert from 'node:assert/strict';
import { test } from 'node:test';

import { actionsOf, ago, enforcementOf, limitsOf, matching, nameOf, serverLineOf, statusOf } from '../../../http/console/labels.mjs';
import { fragmentOf, readFragment } from '../../../http/console/store.mjs';

const strong = { filesystem: 'bubblewrap', network: 'netns', syscalls: 'seccomp', uid: 'private', memory: 'cgroup2', cpu: 'cgroup2', processes: 'cgroup2', sockets: 'count', disk: 'quota', tmp: 'tmpfs' };

test('what is not enforced is a warning that names it', () => {
    assert.equal(enforcementOf(strong).tone, 'good');
    const weak = enforcementOf({ ...strong, memory: 'none', uid: 'shared' });
    assert.equal(weak.tone, 'warn');
    assert.match(weak.summary, /memory/);
    assert.match(weak.summary, /uid: shared/);
    assert.deepEqual(weak.facts.filter((fact) => fact.warning).map((fact) => fact.name), ['uid', 'memory']);
});

test('no sum is better than its parts: what the server names as not enforced is amber, in its words', () => {
    const measured = enforcementOf({ ...strong, disk: 'check' }, { disk: 'the disk is measured, not walled off' });
    // It holds for all sandboxes, and is said in the server's line.
    assert.deepEqual([measured.tone, measured.summary], ['', 'Isolated']);
    assert.equal(measured.facts.find((fact) => fact.name === 'disk').warning, true);
    assert.match(enforcementOf({ ...strong, disk: 'check', uid: 'shared' }, { disk: 'x' }).summary, /weaker here: uid: shared$/);
    assert.match(enforcementOf({ ...strong, memory: 'none' }, { memory: 'no cgroup' }).summary, /not enforced here: memory/);
    assert.equal(measured.facts.find((fact) => fact.name === 'disk').value, 'check (the disk is measured, not walled off)');
    const beyond = enforcementOf(strong, { perUser: 'inotify counts for the user' });
    assert.equal(beyond.tone, 'warn');
    assert.match(beyond.summary, /not enforced here: perUser/);
    // This workspace has a quota, which others on the server lack.
    assert.equal(enforcementOf(strong, { disk: 'measured' }).tone, 'good');
});

test('what holds for the whole server is said once, in its line', () => {
    assert.equal(serverLineOf({ version: '0.1.0' }).text, 'Atoll 0.1.0.');
    const { text, detail } = serverLineOf({ version: '0.1.0', notEnforced: { disk: 'measured', memory: 'no cgroup' } });
    assert.equal(text, 'Atoll 0.1.0. Disk is measured, not walled. Not enforced here: memory.');
    assert.equal(detail, 'disk: measured\nmemory: no cgroup');
});

test('each limit has a label of plain words and a value with its unit', () => {
    assert.deepEqual(limitsOf({ memoryMb: 512, cpuPercent: 50, maxOpenFiles: 64 }), [['memory limit', '512 MB'], ['cpu limit', '50 %'], ['open files limit', '64']]);
});

test('a conversation is named by its title, harmless and short, or by its agent and id', () => {
    const base = { agent: 'shell', id: 'abcdefghijkl', metadata: {} };
    assert.equal(nameOf(base), 'shell abcdef');
    assert.equal(nameOf({ ...base, title: ' a \n b ' }), 'a b');
    assert.equal(nameOf({ ...base, title: '\u202ex' }), '<U+202E>x');
    assert.equal(nameOf({ ...base, title: { a: 1 } }), 'shell abcdef');
    assert.ok(nameOf({ ...base, title: 'x'.repeat(10_000) }).length < 200);
});

test('a search finds names by their words, and a conversation by its id', () => {
    const all = [{ id: 'abcdefghij', agent: 'shell', title: 'Sales of June' }, { id: 'klmnopqrst', agent: 'shell' }];
    const found = (search) => matching(all, search).map(({ id }) => id[0]).join('');
    assert.deepEqual([found(''), found(' june SALES '), found('klmnopqrst'), found('shell'), found('july')], ['ak', 'a', 'k', 'k', '']);
});

test('the state tells its reason', () => {
    assert.deepEqual(statusOf({ status: 'paused', statusReason: 'oom' }), { text: 'paused · out of memory', tone: 'warn' });
    assert.deepEqual(statusOf({ status: 'active', statusReason: null }), { text: 'active', tone: 'good' });
    assert.deepEqual(statusOf({ status: 'ended', statusReason: 'ttl' }), { text: 'ended · its time is over', tone: '' });
    const frozen = { status: 'paused', statusReason: 'idle', sandboxStatus: 'frozen' };
    assert.deepEqual(statusOf(frozen), { text: 'frozen · idle', tone: 'warn' });
});

test('only what the state allows can be done', () => {
    assert.deepEqual(actionsOf({ status: 'active' }, false), { send: true, stop: false, pause: true, freeze: true, resume: false });
    assert.deepEqual(actionsOf({ status: 'active' }, true), { send: true, stop: true, pause: true, freeze: false, resume: false });
    assert.equal(actionsOf({ status: 'paused' }, false).send, true);
    assert.equal(actionsOf({ status: 'ended' }, false).send, false);
});

test('times are told as people tell them', () => {
    const now = Date.parse('2026-01-02T00:00:00Z');
    assert.equal(ago('2026-01-01T23:59:50Z', now), 'just now');
    assert.equal(ago('2026-01-01T23:00:00Z', now), '1 h ago');
    assert.equal(ago('nonsense', now), '');
});

test('the fragment carries a key and a conversation', () => {
    assert.deepEqual(readFragment('#key=a%2Bb&c=xyz'), { key: 'a+b', id: 'xyz' });
    assert.deepEqual(readFragment(''), { key: null, id: null });
    assert.deepEqual(readFragment(fragmentOf('xyz')), { key: null, id: 'xyz' });
});
