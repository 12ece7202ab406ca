import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Drafts } from '../../../http/console/drafts.mjs';

test('a message that is typed belongs to its conversation', () => {
    const drafts = new Drafts();
    drafts.setMessage('a', 'for a');
    drafts.setMessage('b', 'for b');
    assert.deepEqual(['a', 'b', 'c'].map((id) => drafts.message(id)), ['for a', 'for b', '']);
    drafts.setMessage('a', '');
    drafts.forget('b');
    assert.deepEqual(['a', 'b'].map((id) => drafts.message(id)), ['', '']);
});

test('a message that was not sent comes back before what was typed since then', () => {
    const drafts = new Drafts();
    drafts.giveBack('a', 'sent');
    assert.equal(drafts.message('a'), 'sent');
    drafts.setMessage('b', 'typed');
    drafts.giveBack('b', 'sent');
    assert.equal(drafts.message('b'), 'sent\ntyped');
});

test('files with changes belong to their conversation, and count until they are saved or it is gone', () => {
    const drafts = new Drafts();
    assert.equal(drafts.hasEdits('a'), false);
    drafts.edits('a');
    assert.equal(drafts.hasAnyEdits, false);
    drafts.edits('a').set('file', {});
    drafts.edits('b').set('file', {});
    assert.deepEqual(['a', 'b', 'c'].map((id) => drafts.hasEdits(id)), [true, true, false]);
    drafts.edits('a').delete('file');
    assert.equal(drafts.hasAnyEdits, true);
    drafts.forget('b');
    assert.equal(drafts.hasAnyEdits, false);
    assert.equal(drafts.edits('b').size, 0);
});

test('messages on their way belong to their conversation, and stop with it', () => {
    const drafts = new Drafts();
    const made = [];
    const make = () => {
        made.push({ items: [], isStopped: false, stop() { this.isStopped = true; } });
        return made.at(-1);
    };
    assert.equal(drafts.outbox('a', make), drafts.outbox('a', make));
    assert.notEqual(drafts.outbox('b', make), drafts.outbox('a', make));
    assert.equal(drafts.hasAnyUnsent, false);
    made[1].items.push({});
    assert.equal(drafts.hasAnyUnsent, true);
    drafts.forget('a');
    assert.deepEqual(made.map(({ isStopped }) => isStopped), [true, false]);
    drafts.stop();
    assert.equal(made[1].isStopped, true);
});
