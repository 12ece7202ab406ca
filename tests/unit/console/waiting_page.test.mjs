// The script of the page that a preview shows while nothing answers (http/proxy/waiting_page.cpp), in time that
// the test moves.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';

const source = readFileSync(new URL('../../../http/proxy/waiting_page.cpp', import.meta.url), 'utf8');
const script = /k_script = R"\(([^]*?)\)";/.exec(source)[1];

const waits = (why) => ({ headers: new Headers({ 'X-Atoll-Preview': why }) });
const waiting = waits('no_listener');
const there = { headers: new Headers() };
const never = 'no answer';
const LONG_S = 3600;

/// The session storage of a tab.
class Storage {
    values = new Map();
    getItem(key) {
        return this.values.get(key) ?? null;
    }
    setItem(key, value) {
        this.values.set(key, String(value));
    }
}

/// The page in a browser that is all pretended. `answer(n)` is what the n-th request gets.
class Page {
    constructor(answer, { data = {}, came_by = 'navigate', storage = new Storage(), now = 0, hidden = false } = {}) {
        this.now = now;
        this.asked = []; // seconds
        this.requests = [];
        this.reloads = 0;
        this.what = { textContent: '', dataset: { why: 'no_listener', ...data } };
        this.timers = [];
        const page = this;
        this.document = { hidden, getElementById: () => page.what, addEventListener: (type, call) => (page.on_visible = call) };
        vm.runInNewContext(script, {
            document: this.document,
            location: { href: 'http://preview.example/a?b', reload: () => ++page.reloads },
            Date: { now: () => page.now },
            performance: { getEntriesByType: () => [{ type: came_by }], now: () => page.now - now },
            sessionStorage: storage,
            AbortSignal: { timeout: (milliseconds) => ({ milliseconds }) },
            Math,
            Number,
            setTimeout: (call, wait) => page.timers.push({ call, at: page.now + wait }),
            fetch: async (url, options) => {
                page.asked.push(page.now / 1000);
                page.requests.push({ url, ...options });
                const answered = answer(page.asked.length);
                if (answered !== never)
                    return answered;
                assert.ok(options.signal, 'it waits for ever');
                page.now += options.signal.milliseconds;
                throw Object.assign(new Error('timed out'), { name: 'TimeoutError' });
            },
        });
    }
    /// Until nothing more is to come, or for so long.
    async run(seconds = LONG_S) {
        const end = this.now + seconds * 1000;
        while (this.timers.length > 0 && this.timers[0].at <= end) {
            const next = this.timers.shift();
            this.now = next.at;
            await next.call();
        }
    }
}

/// The pages that a tab shows, one after the other, while each is reloaded by itself. `data(n)` is that of the n-th.
async function load_all(answer, { data = () => ({}), storage = new Storage(), now = 0 } = {}) {
    const loads = [];
    do {
        assert.ok(loads.length < 100, 'it reloads for ever');
        const came_by = loads.length === 0 ? 'navigate' : 'reload';
        const page = new Page(answer, { data: data(loads.length + 1), came_by, storage, now });
        await page.run();
        now = page.now;
        loads.push(page);
    } while (loads.at(-1).reloads > 0);
    return loads;
}

const gaps_of = (asked) => asked.map((at, i) => at - (asked[i - 1] ?? 0));

test('the waiting page asks by HEAD each second, for as long as nothing listens', async () => {
    const page = new Page(() => waiting);
    await page.run();
    assert.equal(page.asked.length, LONG_S);
    assert.ok(gaps_of(page.asked).every((gap) => gap === 1));
    assert.ok(page.requests.every(({ method, cache, url }) =>
        method === 'HEAD' && cache === 'no-store' && url === 'http://preview.example/a?b'));
    assert.equal(page.reloads, 0);
});

test('a waiting page that nobody sees asks nothing, and asks at once when it is seen', async () => {
    const page = new Page(() => waiting, { hidden: true });
    await page.run(10);
    assert.deepEqual(page.asked, []);
    page.now = 60_000;
    page.document.hidden = false;
    await page.on_visible();
    await page.run(2);
    assert.deepEqual(page.asked, [60, 61, 62]);
});

test('the waiting page is replaced by the first answer that is not one, however late', async () => {
    for (const count of [3, 1000]) {
        const page = new Page((asked) => (asked < count ? waiting : there));
        await page.run();
        assert.equal(page.asked.at(-1), count);
        assert.equal(page.reloads, 1);
    }
});

test('the page of a paused conversation is replaced when the conversation runs, and only that one', async () => {
    const answer = (count) => waits(count < 3 ? 'paused' : 'no_listener');
    const page = new Page(answer, { data: { why: 'paused' } });
    await page.run();
    assert.deepEqual([page.asked.length, page.reloads], [3, 1]);
    const other = new Page((count) => waits(count < 3 ? 'no_listener' : 'paused'));
    await other.run();
    assert.equal(other.reloads, 0);
});

test('the page of an answer that broke off is loaded once more by itself, and not again', async () => {
    // The dev server breaks GET, whatever it does with HEAD: each load gets this page again.
    const loads = await load_all(() => there, { data: () => ({ broken: '1' }) });
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

test('a dev server that dies of HEAD and is started again is asked less and less, and for five minutes in all', async () => {
    // Each HEAD is broken, which has no field of the page; each load finds that nothing listens.
    const storage = new Storage();
    const loads = await load_all(() => there, { storage });
    const gaps = gaps_of(loads.flatMap((page) => page.asked));
    assert.deepEqual(gaps.slice(0, 7), [1, 2, 4, 8, 16, 30, 30]);
    assert.ok(gaps.slice(5).every((gap) => gap === 30));
    assert.ok(loads.every((page) => page.asked.length === 1));
    const last = loads.at(-1);
    assert.ok(last.now <= 331_000);
    assert.match(last.what.textContent, /five minutes/);
    // A person's reload begins anew, also where the page reloaded itself a little before.
    for (const later of [20_000, 3_600_000]) {
        const now = loads.at(-2).now + later;
        const page = new Page(() => waiting, { came_by: 'reload', storage, now });
        await page.run(5);
        assert.equal(page.asked[0], now / 1000 + 1);
    }
});

test('where nothing can be kept from load to load, the waiting page reloads itself once', async () => {
    const refuse = () => {
        throw new Error('SecurityError');
    };
    for (const storage of [{ getItem: refuse, setItem: refuse }, { getItem: () => null, setItem: refuse }]) {
        const loads = await load_all(() => there, { storage });
        assert.deepEqual(loads.map((page) => page.reloads), [1, 0]);
        assert.match(loads[1].what.textContent, /^Reload the page to try again\.$/);
    }
});

test('what a preview writes into the storage makes the waiting page ask no more often', async () => {
    for (const value of ['', 'x', '0 0 0', '0 1e999 1', '0 x x', '0 300000 0', '0 300000 -1', '0 400000 1000', '0 300000 1e999']) {
        const page = new Page(() => waiting, { came_by: 'reload', storage: { getItem: () => value, setItem() {} } });
        await page.run(5);
        assert.deepEqual(page.asked, [1, 2, 3, 4, 5], value);
    }
});

test('where HEAD is not answered within 10 s, the page is loaded, and a broken answer to that ends it', async () => {
    const loads = await load_all(() => never, { data: (load) => (load === 1 ? {} : { broken: '1' }) });
    assert.deepEqual(loads.map((page) => page.asked), [[1], []]);
    assert.equal(loads[0].now, 11_000);
    assert.match(loads[1].what.textContent, /^Reload the page to try again\.$/);
    // Where nothing listens then, it goes on as before.
    const again = await load_all(() => never);
    assert.ok(again.at(-1).now <= 341_000);
    assert.match(again.at(-1).what.textContent, /five minutes/);
});
