// clients/js against the real server: programs of code mode, on the engine that every machine has, Python's.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startProxy } from '../node_support/proxy.mjs';
import { startServer } from '../node_support/server.mjs';
import { errorOf, keyed, tokened, until } from './js_lab.mjs';

const PYTHON = { executor: 'python' };

let server;
let atoll;
const unhandled = [];
before(async () => {
    process.on('unhandledRejection', (error) => unhandled.push(error));
    server = await startServer({ flags: ['--log-level', 'warn'] });
    atoll = keyed(server);
});
after(async () => {
    await server?.stop();
    assert.deepEqual(unhandled, []);
});

const isExecutionDone = ({ type }) => type === 'done';
const all = (iteration) => until(iteration, () => false);

test('a program gives its result and its log; that it failed is a result, that it cannot run is an error', async () => {
    const executors = await atoll.executions.executors();
    assert.equal(executors.find(({ name }) => name === 'python').available, true);
    const ran = await atoll.execute('print(40 + 2)\nreturn {"sum": 1 + 2}', PYTHON);
    assert.deepEqual([ran.result, ran.logs, ran.calls, ran.executor], [{ sum: 3 }, [{ level: 'log', text: '42' }], [], 'python']);
    const failed = await atoll.execute('raise ValueError("no")', PYTHON);
    assert.deepEqual([failed.error.kind, failed.error.line], ['runtime', 1]);
    assert.equal((await errorOf(atoll.execute('1', { executor: 'cobol' }))).status >= 400, true);
    assert.equal((await errorOf(atoll.execute('1', { ...PYTHON, timeoutMs: 0 }))).code, 'invalid_field');
});

test('calls of tools are answered by functions, also by those that fail, decide and answer what cannot be sent', async () => {
    const decided = [];
    const tools = [
        { name: 'add', inputSchema: { type: 'array' }, run: async (a, b) => a + b },
        { name: 'nothing', run: () => undefined },
        { name: 'fails', run: () => { throw new Error('it is broken'); } },
        { name: 'large', run: () => 'x'.repeat(2 * 1024 * 1024) },
        { name: 'asked', policy: 'ask', decide: (call) => decided.push(call.name) > 0, run: () => 'yes' },
        { name: 'refused', policy: 'ask', decide: async () => false, run: () => 'never' },
        { name: 'unasked', policy: 'ask', run: () => 'never' },
        { name: 'nobody' },
    ];
    const code = `
async def told(name):
    try:
        return await codemode[name]()
    except Exception as error:
        return "failed: " + str(error)[:40]
print("begun")
return [await codemode.add(2, 3)] + [await told(name) for name in ["nothing", "fails", "large", "asked", "refused", "unasked", "nobody"]]
`;
    const ran = await atoll.execute(code, { ...PYTHON, tools });
    assert.equal(ran.error, undefined, JSON.stringify(ran.error));
    const [sum, nothing, fails, large, asked, refused, unasked, nobody] = ran.result;
    assert.deepEqual([sum, nothing, asked], [5, null, 'yes']);
    assert.match(fails, /it is broken/);
    assert.match(nobody, /nobody answers nobody/);
    for (const text of [large, refused, unasked]) assert.match(text, /^failed/);
    assert.deepEqual([ran.logs, decided], [[{ level: 'log', text: 'begun' }], ['asked']]);
    assert.deepEqual(ran.calls.map(({ name }) => name), ['add', 'nothing', 'fails', 'large', 'asked', 'refused', 'unasked', 'nobody']);
});

test('a program reads the files of a sandbox, whose tools can be asked for and denied', async () => {
    const sandbox = await atoll.sandboxes.create();
    await sandbox.files.write('a.txt', 'hello');
    const read = 'return (await codemode.read_file(absolute_path="/workspace/a.txt"))["success"]';
    assert.equal((await sandbox.execute(read, PYTHON)).result, true);
    const seen = [];
    const ask = (isAllowed) => [{ name: 'read_file', policy: 'ask', decide: (call) => seen.push(call.answeredBy) > 0 && isAllowed }];
    assert.equal((await sandbox.execute(read, { ...PYTHON, tools: ask(true) })).result, true);
    assert.equal((await sandbox.execute(read, { ...PYTHON, tools: ask(false) })).error.kind, 'denied');
    assert.deepEqual(seen, ['sandbox', 'sandbox']);
    assert.ok((await sandbox.execute(read, { ...PYTHON, sandboxTools: 'none' })).error);
    await sandbox.update({ ttlSeconds: 3600, limits: { memoryMb: 512 } });
    assert.deepEqual([sandbox.info.ttlSeconds, sandbox.info.limits.memoryMb], [3600, 512]);
    await sandbox.delete();
});

test('a program that goes on by itself is followed over a connection that is cut, answered, listed and cancelled', async () => {
    const tools = [{ name: 'ask', description: 'asks' }];
    const executionId = await atoll.execute.start('return await codemode.ask("x")', { ...PYTHON, tools });
    const proxy = await startProxy(server.address);
    try {
        let isCut = false;
        const events = await until(keyed(server, { address: proxy.address }).executions.follow(executionId), isExecutionDone, async ({ type, data }) => {
            if (type !== 'tool_call' || isCut) return;
            isCut = proxy.cut() > 0;
            assert.deepEqual([data.name, data.args, data.answeredBy], ['ask', ['x'], 'caller']);
            await atoll.executions.answer(executionId, data.callId, { result: 'answered' });
        });
        assert.ok(isCut);
        assert.deepEqual(events.map(({ seq, type }) => [seq, type]), ['start', 'tool_call', 'result', 'done'].map((type, i) => [i + 1, type]));
        const getToken = ({ executionId: id, scope }) => atoll.executions.tokens.create(id, { scope });
        const page = tokened(server).atoll.executions;
        assert.deepEqual(await all(page.follow(executionId, { after: 1, getToken })), events.slice(1));
    } finally {
        await proxy.stop();
    }
    const info = await atoll.executions.get(executionId);
    assert.deepEqual([info.status, info.outcome.result, info.detached], ['ended', 'answered', true]);
    assert.equal((await errorOf(atoll.executions.answer(executionId, 'c1', { result: 1 }))).status, 409);
    const waiting = await atoll.execute.start('await codemode.ask()', { ...PYTHON, tools });
    assert.deepEqual((await all(atoll.executions.list({ limit: 1 }))).slice(0, 2).map((each) => each.executionId), [waiting, executionId]);
    await atoll.executions.cancel(waiting);
    await all(atoll.executions.follow(waiting));
    assert.equal((await atoll.executions.get(waiting)).outcome.error.kind, 'cancelled');
    assert.match(await atoll.executions.declarations(tools), /declare const codemode[^]*ask/);
    assert.equal((await errorOf(atoll.executions.get('a'.repeat(20)))).code, 'not_found');
});

test('the events of a stream end with done, and what is aborted is cancelled', async () => {
    const types = (await all(atoll.execute.stream('print(1)', PYTHON))).map(({ type }) => type);
    assert.deepEqual(types, ['start', 'log', 'result', 'done']);
    const stop = new AbortController();
    let isAsked;
    const asked = new Promise((done) => (isAsked = done));
    const never = new Promise(() => {});
    const run = () => {
        isAsked();
        return never;
    };
    const tools = [{ name: 'ask', run }];
    const running = errorOf(atoll.execute('await codemode.ask()', { ...PYTHON, tools, signal: stop.signal }));
    await asked;
    stop.abort(new Error('enough'));
    assert.equal((await running).message, 'enough');
    const [last] = await until(atoll.executions.list(), () => true);
    await all(atoll.executions.follow(last.executionId));
    assert.equal((await atoll.executions.get(last.executionId)).outcome.error.kind, 'cancelled');
});
