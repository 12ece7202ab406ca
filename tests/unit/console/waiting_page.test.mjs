// The script of the page that a preview shows while nothing answers (http/proxy/waiting_page.cpp), in time that
// the test moves.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';

const source = readFileSync(new URL('../../../http/proxy/waiting_page.cpp', import.meta.url), 'utf8');
const script = /k_script = R"\(([^]*?)\)";/.exec(source)[1];

/// The page in a browser that is all pretended. `answer(n)` is what the n-th request gets.
class Page {
    constructor(answer, { data = {}, came_by = 'navigate' } = {}) {
        this.now = 0;
        this.asked = []; // seconds
        this.requests = [];
        this.reloads = 0;
        this.what = { textContent: '', dataset: data };
        this.timers = [];
        const page = this;
        vm.runInNewContext(script, {
            document: { getElementById: () => page.what },
            location: { href: 'http://preview.example/a?b', reload: () => ++page.reloads },
            Date: { now: () => page.now },
            performance: { getEntriesByType: () => [{ type: came_by }] },
            Math,
            setTimeout: (call, wait) => page.timers.push({ call, at: page.now + wait }),
            fetch: async (url, options) => {
                page.asked.push(page.now / 1000);
                page.requests.push({ url, ...options });
                return answer(page.asked.length);
            },
        });
    }
    /// Until nothing more is to come.
    async run() {
        while (this.timers.length > 0) {
            const next = this.timers.shift();
            this.now = next.at;
            await next.call();
        }
    }
}

const waiting = { headers: new Map([['X-Atoll-Preview', 'waiting']]) };
const there = { headers: new Map() };

test('the waiting page asks by HEAD after 1, 2, 4 … 30 s, and stops after five minutes', async () => {
    const page = new Page(() => waiting);
    await page.run();
    const gaps = page.asked.map((at, i) => at - (page.asked[i - 1] ?? 0));
    assert.deepEqual(gaps.slice(0, 7), [1, 2, 4, 8, 16, 30, 30]);
    assert.ok(gaps.slice(5).every((gap) => gap === 30));
    assert.ok(page.asked.at(-1) <= 300);
    assert.ok(page.now <= 331_000);
    assert.ok(page.requests.every(({ method, cache, url }) =>
        method === 'HEAD' && cache === 'no-store' && url === 'http://preview.example/a?b'));
    assert.equal(page.reloads, 0);
    assert.match(page.what.textContent, /five minutes/);
});

test('the waiting page is replaced by the first answer that is not one', async () => {
    const page = new Page((count) => (count < 3 ? waiting : there));
    await page.run();
    assert.deepEqual(page.asked, [1, 3, 7]);
    assert.equal(page.reloads, 1);
});

test('the page of an answer that broke off is loaded once more by itself, and not again', async () => {
    // The dev server breaks GET, whatever it does with HEAD: each load gets this page again.
    const loads = [];
    let came_by = 'navigate';
    do {
        assert.ok(loads.length < 5, 'it reloads for ever');
        const page = new Page(() => there, { data: { broken: '1' }, came_by });
        await page.run();
        loads.push(page);
        came_by = 'reload';
    } while (loads.at(-1).reloads > 0);
    assert.deepEqual(loads.map((page) => page.asked), [[1], []]);
    assert.match(loads[1].what.textContent, /^Reload the page to try again\.$/);
    // Where nothing answered, a reload changes nothing.
    const other = new Page(() => there, { came_by: 'reload' });
    await other.run();
    assert.deepEqual(other.asked, [1]);
    assert.equal(other.reloads, 1);
});

test('the waiting page goes on while the server is away', async () => {
    const page = new Page((count) => {
        if (count < 3)
            throw new TypeError('failed to fetch');
        return there;
    });
    await page.run();
    assert.equal(page.asked.length, 3);
    assert.equal(page.reloads, 1);
});
