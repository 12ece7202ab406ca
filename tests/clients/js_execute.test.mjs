// clients/js against the real server: programs of code mode, on the engine that every machine has, Python's.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { startProxy } from '../node_support/proxy.mjs';
import { startServer } from '../node_support/server.mjs';
import { errorOf, keyed, tokened, until } from './js_lab.mjs';
import { refuse, startStub } from './sandbox_stub.mjs';

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
        { name: 'bigint', run: () => 10n },
        { name: 'cycle', run: () => { const self = {}; return (self.self = self); } },
        { name: 'thrower', run: () => ({ toJSON: () => { throw new Error('not as JSON'); } }) },
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
return [await codemode.add(2, 3)] + [await told(name) for name in ["nothing", "fails", "large", "bigint", "cycle", "thrower", "asked", "refused", "unasked", "nobody"]]
`;
    const ran = await atoll.execute(code, { ...PYTHON, tools });
    assert.equal(ran.error, undefined, JSON.stringify(ran.error));
    const [sum, nothing, fails, large, bigint, cycle, thrower, asked, refused, unasked, nobody] = ran.result;
    assert.deepEqual([sum, nothing, asked, bigint], [5, null, 'yes', 10]);
    assert.match(fails, /it is broken/);
    assert.match(nobody, /nobody answers nobody/);
    assert.match(thrower, /not as JSON/);
    for (const text of [large, cycle, refused, unasked]) assert.match(text, /^failed/);
    assert.deepEqual([ran.logs, decided], [[{ level: 'log', text: 'begun' }], ['asked']]);
    assert.deepEqual(ran.calls.map(({ name }) => name), tools.map(({ name }) => name));
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
        for (const after of [events.at(-1).seq, 1000]) assert.deepEqual(await all(page.follow(executionId, { after, getToken })), []);
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
    const told = await atoll.executions.declarations(tools);
    assert.match(told.declarations, /declare const codemode[^]*ask/);
    assert.deepEqual(told.warnings, []);
    const mail = { name: 'mail', inputSchema: { properties: { to: { type: 'string', pattern: '^(?!x)' } } } };
    const { warnings } = await atoll.executions.declarations([mail]);
    assert.deepEqual(warnings.map(({ tool, keyword }) => [tool, keyword]), [['mail', 'pattern']]);
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

/** A program with one call, `c1`, on a stub; `answers` are what its POSTs get, in order, and the program ends behind the last one. */
async function withCall(policy, answers, run) {
    const posted = [];
    let stream;
    const send = (seq, type, data = {}) => stream.write(`data: ${JSON.stringify({ seq, type, at: '', data })}\n\n`);
    const onExecute = ({ response }) => {
        stream = response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        send(1, 'start', { executionId: 'e1', executor: 'python' });
        send(2, 'tool_call', { callId: 'c1', name: 'ask', args: [], policy, answeredBy: 'caller' });
    };
    const onAnswer = ({ body, response }) => {
        answers[posted.push(JSON.parse(body)) - 1](response);
        if (posted.length < answers.length || stream === undefined) return;
        send(3, 'result', { result: 'r', calls: [], durationMs: 1, executor: 'python' });
        send(4, 'done');
        stream.end();
    };
    const stub = await startStub({ answers: { 'POST /v1/execute': onExecute, 'POST /v1/executions/e1/calls/c1': onAnswer } });
    try {
        await run(keyed(stub), posted);
    } finally {
        await stub.stop();
    }
}
const taken = (response) => response.writeHead(204).end();
const cut = (response) => response.destroy();
const answered = (response) => refuse(response, 409, 'call_answered');

test('a decision or an answer whose own answer is lost counts', async () => {
    const allow = { decision: 'allow' };
    await withCall('ask', [cut, answered, cut, answered], async (client, posted) => {
        const tools = [{ name: 'ask', policy: 'ask', decide: () => true, run: () => 5 }];
        assert.equal((await client.execute('x', { tools })).result, 'r');
        assert.deepEqual(posted, [allow, allow, { result: 5 }, { result: 5 }]);
    });
    await withCall('allow', [cut, answered, answered], async ({ executions }, posted) => {
        await executions.answer('e1', 'c1', { result: 1 });
        assert.equal((await errorOf(executions.answer('e1', 'c1', { result: 2 }))).code, 'call_answered');
        assert.deepEqual(posted.map(({ result }) => result), [1, 1, 2]);
    });
});

test('the program hears that there was no turn or no time for a long answer', async () => {
    for (const [status, code] of [[429, 'too_many_executions'], [504, 'deadline_exceeded']]) {
        await withCall('allow', [(response) => refuse(response, status, code), taken], async (client, posted) => {
            assert.equal((await client.execute('x', { tools: [{ name: 'ask', run: () => 5 }] })).result, 'r');
            assert.deepEqual(posted, [{ result: 5 }, { error: { message: `told ${code}` } }]);
        });
    }
});
