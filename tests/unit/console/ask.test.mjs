import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ask } from '../../../http/console/ask.mjs';

// The elements of the dialog. As in a browser, it tells only later that it was closed.
function dialog() {
    const at = Object.fromEntries(['askTitle', 'askText', 'askLabel', 'askProblem', 'askSubmit'].map((name) => [name, {}]));
    at.askName = { value: '', focus() {}, setSelectionRange() {} };
    at.askForm = Object.assign(new EventTarget(), { querySelector: () => ({ focus() {} }) });
    at.askDialog = Object.assign(new EventTarget(), {
        open: false,
        showModal() {
            this.open = true;
        },
        close() {
            if (!this.open) return;
            this.open = false;
            setImmediate(() => this.dispatchEvent(new Event('close')));
        },
    });
    return { at, submit: () => at.askForm.dispatchEvent(new Event('submit', { cancelable: true })) };
}

test('a dialog that is closed is a no', async () => {
    const { at } = dialog();
    const answer = ask(at, { title: 'Delete?', text: '', action: 'Delete' });
    at.askDialog.close();
    assert.equal(await answer, null);
});

test('a question that another one replaces is answered with no, and does not take the answer to the other one', async () => {
    const { at, submit } = dialog();
    const first = ask(at, { title: 'Delete?', text: '', action: 'Delete' });
    at.askDialog.close();
    const second = ask(at, { title: 'Sign out?', text: '', action: 'Sign out' });
    await new Promise((done) => setImmediate(done));
    assert.equal(at.askDialog.open, true);
    submit();
    assert.deepEqual(await Promise.all([first, second]), [null, true]);
    assert.equal(at.askDialog.open, false);
});
