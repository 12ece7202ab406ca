// A program with clients/js in TypeScript: it compiles in strict mode, runs, and each line that is wrong on purpose is an error.
import { Atoll, AtollError, type AtollEvent, type Conversation, type EgressNetwork, type ExecFrame } from '@atoll/client';

declare const process: { env: Record<string, string | undefined> };

const baseUrl = process.env.ATOLL_URL ?? '';
const atoll = new Atoll({ baseUrl, apiKey: process.env.ATOLL_KEY ?? '' });

function tell(event: AtollEvent): string {
    switch (event.type) {
        case 'turn_start':
            return `asked ${JSON.stringify(event.data.content.trim())}`;
        case 'text_delta':
            return event.data.delta.trim();
        case 'turn_complete':
            return `${event.data.result} ${event.data.exitCode ?? ''}`;
        case 'sandbox_terminated':
            return `${event.data.class} ${event.data.peakBytes ?? event.data.limitBytes ?? event.data.code}`;
        case 'sandbox_paused':
            // @ts-expect-error
            if (event.data.reason === 'tired') return event.data.mode;
            return event.data.mode;
        case 'session_start':
            return event.data.sandboxId;
        case 'egress_denied':
            return `${event.data.host}:${event.data.port} ${event.data.reason} ${event.data.requests ?? 1}`;
        case 'egress_closed':
            // @ts-expect-error
            return `${event.data.bytesUp + event.data.bytesDown} ${event.data.ms} ${event.data.route ?? ''} ${event.data.reason}`;
        case 'egress_request':
            return `${event.data.id} ${event.data.host}:${event.data.port}`;
        case 'egress_resolved':
            // @ts-expect-error
            return event.data.decision === 'perhaps' ? '' : event.data.decision;
        case 'permission_request':
            // @ts-expect-error
            if (event.data.options[0]?.kind === 'allow') return '';
            return `${event.data.id} ${event.data.toolUseId} ${event.data.options.map(({ optionId, name }) => `${optionId} ${name}`).join(', ')}`;
        case 'permission_resolved':
            return `${event.data.id} ${event.data.outcome} ${event.data.reason} ${event.data.optionId ?? ''}`;
        case 'done':
            // @ts-expect-error
            return event.data.delta;
        default:
            // @ts-expect-error
            if (event.type === 'text_dleta') return '';
            return event.type;
    }
}

export async function decide(conversation: Conversation, event: AtollEvent): Promise<void> {
    if (event.type === 'permission_request') await conversation.permissions.answer(event.data.id, event.data.options[0]?.optionId ?? null);
    if (event.type === 'egress_request') await conversation.decideEgress(event.data.id, 'once');
    // @ts-expect-error
    await conversation.permissions.answer('p1');
}

async function converse(): Promise<void> {
    const tools = { readBeforeEdit: true, runCommand: false };
    const conversation = await atoll.conversations.create({ agent: 'shell', userId: 'alice', metadata: { ticket: 17, order: 2n ** 60n }, tools });
    console.log(conversation.info?.tools.readBeforeEdit, conversation.info?.tools.runCommand);
    for await (const event of conversation.stream('echo hello')) console.log(tell(event));
    const { turn, after } = await conversation.send('echo again', { idempotencyKey: 'again-1' });
    // Node 22 has a WebSocket of its own.
    const followed = conversation.follow({ after, transport: 'websocket', onStatus: (status) => console.log(status) });
    for await (const event of followed) {
        if (event.turn === turn && event.type === 'done') break;
    }
    console.log(Number.parseInt(followed.after, 10) > after);
    for await (const one of atoll.conversations.list({ userId: 'alice', metadata: { ticket: 17 } })) console.log(one.info?.status);
    const { text, outcome, errors } = await conversation.ask('true', { onEvent: ({ seq }) => void seq });
    if (text !== '' || errors.length > 0) throw new Error(outcome ?? errors[0]?.code ?? '');
    // @ts-expect-error
    conversation.info.status;
    await conversation.delete({ signal: AbortSignal.timeout(60_000) });
}

/** Compiled only: another test has the routes. */
export async function compiledOnly(id: string): Promise<void> {
    const sandbox = atoll.sandbox(id);
    const { stdout, stderrBytes, exitCode } = await sandbox.exec(['ls', '-l'], { cwd: 'src' });
    console.log(stdout.length, stderrBytes.byteLength, exitCode === 0);
    for await (const frame of sandbox.exec.stream('make')) console.log(textOf(frame));
    for await (const entry of sandbox.files.list('src', { depth: 2 })) console.log(entry.path);
    for await (const event of sandbox.files.watch({ path: 'src', recursive: false })) {
        if (event.type === 'changes') console.log(event.changes.map(({ change, path, to }) => `${change} ${path} ${to ?? ''}`));
        // @ts-expect-error
        else if (event.type === 'changed') break;
    }
    const moved: { href: string } = { href: 'a%FF' };
    await sandbox.files.move(await sandbox.files.stat(moved), { href: 'b%FF' });
    await sandbox.files.write('a', await sandbox.files.readStream('b'), { mode: 0o644 });
    for await (const entry of sandbox.files.list('', { all: true, depth: 2 })) console.log(entry.path);
    // @ts-expect-error
    sandbox.files.watch({ all: 'yes' });
    const { processId } = await sandbox.processes.start('npm run dev', { pty: { cols: 80, rows: 24 }, restart: 'generation' });
    const attached = sandbox.processes.attach(processId);
    for await (const frame of attached) {
        if (frame.type === 'stdout' || frame.type === 'stderr') console.log(frame.bytes.length);
        else if (frame.type === 'exit') console.log(frame.exitCode);
    }
    const page = await sandbox.processes.output(processId, { after: attached.after });
    console.log(page.next, page.stdout, page.stderrBytes.length, page.exit?.exitCode);
    // @ts-expect-error
    sandbox.processes.attach(processId, { transport: 'carrier pigeon' });
    const terminal = await sandbox.terminal({ cols: 80, rows: 24, transport: 'sse' });
    const stop: () => void = terminal.onData((bytes) => console.log(bytes.length));
    stop();
    const result = await sandbox.tools.call('read_file', { absolute_path: '/workspace/a' }, { toolCallId: '1' });
    console.log(result.userFeedback, (await sandbox.tools('openai')).tools[0]?.function.parameters, (await atoll.tools()).tools[0]?.inputSchema);
    // @ts-expect-error
    console.log((await sandbox.tools('gemini')).tools[0]?.function);
    console.log((await sandbox.metrics()).memory.usedBytes, (await sandbox.files.mkdir('d')).path);
    for await (const frame of sandbox.tools.stream('glob', { pattern: '**' }))
        console.log(frame.type === 'tool_progress' ? `${frame.status} ${frame.progress?.toFixed(2) ?? frame.message}` : frame.result.success);
    const { token } = await sandbox.createToken({ scope: 'files', ttlSeconds: 60 });
    console.log(token.length, (await sandbox.logs({ stream: 'system' })).entries[0]?.text);
    const conversation = await atoll.conversations.create({ network: 'none', preview: { access: 'private', ports: [3000] } });
    await conversation.update({ preview: { wake: false } });
    console.log((await conversation.createToken({ scope: 'preview' })).url, conversation.info?.preview.ports[0]);
    await conversation.update({ network: 'host' });
    const headers = { 'x-api-key': { secret: 'mine' }, 'x-team': 'a' };
    const network: EgressNetwork = { mode: 'egress', allow: ['@npm'], routes: [{ name: 'anthropic', upstream: 'https://api.example.com', headers }] };
    await conversation.update({ network: { ...network, allow: ['@npm', 'api.example.com:443'] } });
    const now = conversation.info?.network;
    if (typeof now === 'object' && now.mode === 'egress') console.log(now.allow?.length, now.routes?.[0]?.upstream);
    // @ts-expect-error
    await conversation.update({ network: { mode: 'none', allow: ['api.example.com'] } });
    // @ts-expect-error
    await atoll.sandboxes.create({ network: 'egress' });
    // @ts-expect-error
    await sandbox.createToken();
    // @ts-expect-error
    await sandbox.createToken({ scope: 'chat' });
    // @ts-expect-error
    await atoll.conversation(id).pause({ mode: 'tepid' });
    // @ts-expect-error
    await atoll.conversation(id).send(7);
    // @ts-expect-error
    await sandbox.tools('xml');
    // @ts-expect-error
    await sandbox.exec(7);
    new Atoll();
    // @ts-expect-error
    new Atoll({ baseUrl, apiKey: 'x', token: 'y' });
    const counts: { entries: number } = await sandbox.files.uploadDir('site', { path: 'web' });
    console.log(counts.entries + (await sandbox.files.downloadDir('web', 'copy')));
    // @ts-expect-error
    (await atoll.conversation(id).previewUrl(8000)).length;
    // Node 22 has no `await using`.
    await (await atoll.sandboxes.create())[Symbol.asyncDispose]();
    await atoll.system({ timeoutMs: 1000 });
    console.log((await atoll.secrets.put('KEY', { value: 'v', hosts: ['a.example'], userId: 'u' })).usable, (await atoll.secrets.list({ userId: 'u' }))[0]?.hosts);
    // @ts-expect-error
    await atoll.secrets.put('KEY', { value: 'v' });
    await atoll.secrets.delete('KEY');
    const ran = await atoll.execute('return await codemode.add(1, 2)', { tools: [{ name: 'add', run: (a: number, b: number) => a + b }], timeoutMs: 5000 });
    console.log(ran.error?.kind ?? ran.result, ran.logs[0]?.text);
    for await (const event of sandbox.execute.stream('1', { sandboxTools: 'none' })) if (event.type === 'tool_call') console.log(event.data.args);
    const executionId = await atoll.execute.start('1', { tools: [{ name: 'add', policy: 'ask' }] });
    await atoll.executions.answer(executionId, 'c1', { decision: 'allow' });
    const { declarations, warnings } = await atoll.executions.declarations([{ name: 'add' }]);
    console.log(declarations.length, warnings[0]?.keyword);
    console.log((await atoll.executions.cancel(executionId)).outcome?.durationMs, (await atoll.executions.executors())[0]?.languages);
    await (await atoll.sandboxes.get('s1')).update({ limits: { memoryMb: 512 }, ttlSeconds: 60 });
    // @ts-expect-error
    await atoll.execute.stream('1', { tools: [{ name: 'add', run: () => 1 }] });
    // @ts-expect-error
    await atoll.executions.answer(executionId, 'c1', { decision: 'maybe' });
    new Atoll({ baseUrl, apiKey: 'x', timeoutMs: 10_000, onRetry: ({ path, attempt, error }) => console.log(path, attempt, error.code) });
    // @ts-expect-error
    sandbox.files.watch({ timeoutMs: 1000 });
    new Atoll({ baseUrl, getToken: async ({ conversationId }) => (await fetch(`/token/${conversationId}`)).json() });
}

function textOf(frame: ExecFrame): string {
    return frame.type === 'exit' ? `exit ${frame.exitCode ?? frame.signal}` : frame.data;
}

await converse();
try {
    await atoll.conversations.create({ agent: 'nobody' });
} catch (error) {
    if (!(error instanceof AtollError)) throw error;
    console.log(`refused: ${error.code} at ${error.pointer}`);
}
