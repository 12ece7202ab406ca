/// <reference lib="esnext.disposable" />
// The types of the client. Calls throw AtollError, or the reason of a `signal` that is aborted. Integers of JSON beyond 2^53 - 1 are bigints, both ways.
import type { AtollEvent, ExitClass, StatusReason } from './events.js';
import type { Execute, Executions } from './executions.js';
import type { Files } from './files.js';
import type { Network } from './network.js';
import type { Secrets } from './secrets.js';
import type { ToolFormat, ToolList, Tools } from './tools.js';
export type { AtollEvent, ExitClass, StatusReason };
export type { EgressNetwork, Network, NetworkHost, NetworkRoute } from './network.js';
export * from './executions.js';
export * from './secrets.js';
export * from './tools.js';
/** An error of the server (docs/errors.md) or, with status 0, of the client or at the end of a stream. */
export class AtollError extends Error {
    constructor(told: {
        status?: number; code: string; detail?: string; pointer?: string | null; requestId?: string | null; retryAfter?: number | null; budget?: string | null; logEpoch?: string | null; cause?: unknown;
    });
    /** The status of the answer; 0: there was none. */
    readonly status: number;
    /** A stable word: of docs/errors.md, or `connection_failed`, `timeout`, `invalid_answer`, `invalid_path`, `no_token`, `protocol_error`, `input_refused`. */
    readonly code: string;
    /** For people: what is wrong and what to do. May change. */
    readonly detail: string;
    /** The JSON pointer of the member of the body that is at fault. */
    readonly pointer: string | null;
    /** Names the request in the server's log. */
    readonly requestId: string | null;
    /** Seconds after which to try again. */
    readonly retryAfter: number | null;
    /** The budget that has no room, of `user_share` and `capacity`. */
    readonly budget: string | null;
    /** With the code `log_replaced`: the epoch of the log that is there. */
    readonly logEpoch: string | null;
}

export interface Abortable {
    signal?: AbortSignal | undefined;
}
export interface Cancellable extends Abortable {
    /**
     * Milliseconds until the answer is there, with all attempts; then the call throws `timeout`, and what it asked for may still be done.
     * A list has this time for each page. The default is the client's, or 60,000 for what reads and 960,000 for what changes something (the
     * server may need 15 minutes). Uploads have none by default. The bytes of a file, an archive or a transcript have no limit.
     */
    timeoutMs?: number | undefined;
}

/** The subject and the scope of the token that is wanted. */
export interface TokenRequest {
    conversationId?: string;
    sandboxId?: string;
    executionId?: string;
    scope: 'chat' | 'files' | 'terminal' | 'read';
    signal?: AbortSignal | undefined;
}
/**
 * Asks your backend for a token. Called for the first request, and again when a token has expired; not again before it has answered, which
 * may take any time, as long as a call waits (`signal`). That it throws, or returns none, is `no_token` and passes: follow(), watch() and
 * attach() ask again, with growing delays. An AtollError with the status 401, 403 or 404 ends them, whatever its `code`: so say that the user
 * is signed out.
 */
export type GetToken = (wanted: TokenRequest) => string | { token: string } | Promise<string | { token: string }>;

/** Constructors that work: a browser's, Node's (22 and later), that of the package `ws`. With an API key the last two send it in a header. */
export type WebSocketConstructor = new (url: string) => unknown;

interface CommonOptions {
    /** The address of the server: `https://atoll.example`. In Node ATOLL_URL of the environment by default. */
    baseUrl?: string | URL;
    fetch?: typeof globalThis.fetch | undefined;
    /** Node 18 and 20 have none, and null is none: then event streams and POSTs do what a WebSocket does elsewhere. */
    WebSocket?: WebSocketConstructor | null | undefined;
    /** More attempts of a request that can be sent again safely, after a broken connection, 429 or 503. 2 by default. */
    retries?: number;
    /** For calls that say none: see `Cancellable`. Not for uploads. */
    timeoutMs?: number;
    /**
     * Calls when an attempt has failed and there will be another: of a request, and of what goes on over connections that break, which has
     * no last attempt. A wrong host or certificate shows here. What it throws ends the call.
     */
    onRetry?: (failed: Retry) => void;
    /**
     * An event stream or a WebSocket that does not open, or is silent, for so long is dead. 45,000 by default: three heartbeats. It also
     * bounds each attempt to post a message. The wait for a token does not count.
     */
    silenceMs?: number;
}
export interface Retry {
    method: string;
    /** Without query. */
    path: string;
    /** Failures in a row, this one counted. */
    attempt: number;
    delayMs: number;
    error: AtollError;
}
/** A backend has an API key. A browser has tokens: one, or a callback that gets a new one when it is needed. */
export type AtollOptions = CommonOptions & (
    /** In Node ATOLL_API_KEY of the environment by default. */
    | { apiKey?: string | undefined; token?: undefined; getToken?: undefined }
    | { apiKey?: undefined; token: string; getToken?: undefined }
    | { apiKey?: undefined; token?: undefined; getToken: GetToken }
);

export class Atoll {
    constructor(options?: AtollOptions);
    readonly conversations: Conversations;
    readonly sandboxes: Sandboxes;
    /** Values that the server puts into requests of routes. */
    readonly secrets: Secrets;
    /** Runs a program that a model wrote, in a sandbox made for it alone. */
    readonly execute: Execute;
    readonly executions: Executions;
    /** A conversation that exists; sends no request. */
    conversation(id: string): Conversation;
    /** A sandbox that exists; sends no request. */
    sandbox(id: string): Sandbox;
    /** The tools with their schemas, as a model's API takes them. */
    tools<Format extends ToolFormat = 'json-schema'>(format?: Format, options?: Cancellable): Promise<ToolList<Format>>;
    /** Facts about the server, and the limits that it enforces. */
    system(options?: Cancellable): Promise<Record<string, unknown>>;
}

/** An async iterator that can be ended at any time, also while next() waits. */
export interface Iteration<T> extends AsyncIterableIterator<T> {
    return(value?: unknown): Promise<IteratorResult<T, any>>;
}

// Conversations

export type ConversationStatus = 'starting' | 'active' | 'paused' | 'ended' | 'error';
export type SandboxStatus = 'pending' | 'ready' | 'frozen' | 'failed' | 'terminated';
export interface Limits {
    memoryMb: number;
    cpuPercent: number;
    diskMb: number;
    tmpMb: number;
    maxProcesses: number;
    maxSockets: number;
    maxOpenFiles: number;
}

/** Which ports of a sandbox its preview shows, and to whom. */
export interface Preview {
    access: 'public' | 'private';
    /** True: a request wakes the conversation when it is paused. */
    wake: boolean;
    /** The first is that of the address without a port. */
    ports: number[];
}
/** How the tools for models work in a sandbox. */
export interface ToolSettings {
    /** An edit of a file that was not read in this generation, or changed since, is refused. */
    readBeforeEdit: boolean;
    /** The tool `run_command` is there. */
    runCommand: boolean;
}

export interface ConversationInfo {
    id: string;
    title: string | null;
    agent: string;
    status: ConversationStatus;
    statusReason: StatusReason | null;
    userId: string | null;
    sandboxId: string;
    generation: number;
    sandboxStatus: SandboxStatus;
    sandboxCreatedAt: string;
    sandboxPublicUrl: string | null;
    openPorts: { port: number; url: string | null }[];
    /** Lists leave `content` out. */
    openTurn: { turn: string; startedAt: string; content?: string } | null;
    limits: Limits;
    network: Network;
    preview: Preview;
    tools: ToolSettings;
    metadata: Record<string, unknown>;
    idleSeconds: number;
    ttlSeconds: number;
    createdAt: string;
    lastActiveAt: string;
    /** Another one begins when the log is no continuation of what clients have seen. */
    logEpoch: string;
    firstSeq: number;
    lastSeq: number;
    enforcement: Record<string, string>;
}
export interface ConversationChanges {
    title?: string | null;
    metadata?: Record<string, unknown>;
    limits?: Partial<Limits>;
    network?: Network;
    preview?: Partial<Preview>;
    tools?: Partial<ToolSettings>;
    idleSeconds?: number;
    ttlSeconds?: number;
}
export interface NewConversation extends Omit<ConversationChanges, 'title'> {
    agent?: string;
    title?: string;
    userId?: string;
    env?: Record<string, string>;
}
export interface ConversationFilter extends Cancellable {
    status?: ConversationStatus;
    userId?: string;
    sandboxId?: string;
    agent?: string;
    /** Members at the top level of the metadata, all of which must fit. */
    metadata?: Record<string, string | number | bigint | boolean>;
    createdAfter?: string | Date;
    createdBefore?: string | Date;
    activeAfter?: string | Date;
    activeBefore?: string | Date;
    order?: 'newest' | 'oldest';
    /** Items in a page. */
    limit?: number;
}
export interface NewToken {
    /** `read` by default. */
    scope?: 'read' | 'chat' | 'files' | 'terminal' | 'preview';
    ttlSeconds?: number;
}
export interface Token {
    token: string;
    expiresAt: string;
    /** Scope `preview` only: the address that a browser opens; null: there is no preview. */
    url?: string | null;
}

export interface Conversations {
    /** Resolves once its sandbox is ready. Sent again with the same `idempotencyKey`, it makes no second one. */
    create(form?: NewConversation & Cancellable & { idempotencyKey?: string }): Promise<Conversation>;
    get(id: string, options?: Cancellable): Promise<Conversation>;
    /** All conversations that fit, the newest first; pages are fetched as they are needed. */
    list(filter?: ConversationFilter): Iteration<Conversation>;
    update(id: string, changes: ConversationChanges, options?: Cancellable): Promise<Conversation>;
    delete(id: string, options?: Cancellable): Promise<void>;
    /** Removes all that the server keeps of a user. */
    eraseUser(userId: string, options?: Cancellable): Promise<{ conversations: number; sandboxes: number }>;
    transcript(id: string, options?: { format?: 'markdown' | 'jsonl' } & Cancellable): Promise<string>;
    readonly tokens: {
        /** A token for a browser: streams of this one conversation. */
        create(id: string, options?: NewToken & Cancellable): Promise<Token>;
    };
}

export type MessageContent = string | { type: 'text'; text: string }[];
export interface TurnTicket {
    turn: string;
    /** The turn's events have a greater seq. */
    after: number;
}
export interface FollowOptions extends Abortable {
    /** The seq of the last event that is known, or the `after` of a follow(), which says of which log it is, too; 0, from the beginning, by default. */
    after?: number | string;
    /** `sse` for clients with a key, `websocket` for those with tokens unless there is no WebSocket. */
    transport?: 'sse' | 'websocket';
    getToken?: GetToken;
    /** The log has dropped events between `after` and `next`. Without it follow() throws `seq_expired` then. */
    onGap?: (gap: { after: number; next: number }) => void;
    /**
     * The log is another one, as after a restored backup: its events follow from the beginning, and those before are void. Without
     * it follow() throws `log_replaced` then.
     */
    onReset?: () => void;
    /** `live`: connected. `waiting`: disconnected, the next attempt comes after `delayMs`. */
    onStatus?: (status: 'live' | 'waiting', info: { code?: string; detail?: string; delayMs?: number }) => void;
}

export interface AskOptions extends Omit<FollowOptions, 'after' | 'onReset'> {
    idempotencyKey?: string;
    /** Calls with each event of the turn, as it comes. */
    onEvent?: (event: AtollEvent) => void;
}
export interface Answer {
    turn: string;
    /** The deltas of the turn, joined. */
    text: string;
    /** How the turn ended, as the agent says: `success`, `error` and so on; null: it did not say, see `errors`. */
    outcome: string | null;
    exitCode: number | null;
    /** The errors of the turn: `interrupt_ignored`, `oom`, `agent_crashed` and others. */
    errors: { code: string; message: string }[];
    /** So much of the turn is not in the log. */
    droppedBytes: number;
}
export interface Conversation {
    readonly id: string;
    /** The facts that the server told last; null for a conversation that was made by `atoll.conversation(id)`. */
    info: ConversationInfo | null;
    /** Needs `info`. */
    readonly sandbox: Sandbox;
    refresh(options?: Cancellable): Promise<this>;
    update(changes: ConversationChanges, options?: Cancellable): Promise<this>;
    delete(options?: Cancellable): Promise<void>;
    /** Deletes it: `await using conversation = await atoll.conversations.create()`. */
    [Symbol.asyncDispose](): Promise<void>;
    /** Starts a turn. An `idempotencyKey` of one's own makes it safe to repeat the call, too. */
    send(content: MessageContent, options?: { idempotencyKey?: string; getToken?: GetToken } & Cancellable): Promise<TurnTicket>;
    /** Starts a turn and iterates over its events until `done`, each once, whatever happens to the connection. */
    stream(content: MessageContent, options?: { idempotencyKey?: string } & Omit<FollowOptions, 'after' | 'onReset'>): Iteration<AtollEvent>;
    /**
     * Starts a turn, waits for its end and returns its text. It goes on with the same turn over connections that break; with an
     * `idempotencyKey` of one's own also in another process. A turn that went wrong is an answer, not an error.
     */
    ask(content: MessageContent, options?: AskOptions): Promise<Answer>;
    /**
     * All events, each once and in order, until the conversation is removed; over connections that break, servers that restart
     * and tokens that expire. `after` of the iterator names the last event that it returned, and the epoch
     * of its log: keep it, and give it as `after` next time.
     */
    follow(options?: FollowOptions): Iteration<AtollEvent> & { readonly after: string };
    /**
     * The address at which a browser sees a port, by default the first of those that are shown; null where it has none. Another one than
     * the first has its address once something listens there. A private preview needs `url` of `createToken({ scope: 'preview' })`.
     */
    previewUrl(port?: number, options?: Cancellable): Promise<string | null>;
    interrupt(options?: Cancellable): Promise<this>;
    /** `answer` has an option of a `permission_request` of the open turn; null cancels it. */
    readonly permissions: { answer(permissionId: string, optionId: string | null, options?: Cancellable): Promise<null> };
    pause(options?: { mode?: 'cold' | 'warm' } & Cancellable): Promise<this>;
    resume(options?: Cancellable): Promise<this>;
    /**
     * Decides on a host that a program inside asks for: `requestId` is `id` of the event `egress_request`. `always` adds the host and the port to
     * `network.allow`. Needs a key. AtollError `not_found` where it waits no longer.
     */
    decideEgress(requestId: string, decision: 'once' | 'always' | 'deny', options?: Cancellable): Promise<void>;
    transcript(options?: { format?: 'markdown' | 'jsonl' } & Cancellable): Promise<string>;
    createToken(options?: NewToken & Cancellable): Promise<Token>;
}

// Sandboxes

export interface SandboxInfo {
    id: string;
    conversationId: string | null;
    userId: string | null;
    generation: number;
    status: SandboxStatus;
    /** Why one without a conversation has ended; null: it has not, or that is not known since a restart. */
    statusReason: StatusReason | null;
    sandboxPublicUrl: string | null;
    openPorts: { port: number; url: string | null }[];
    limits: Limits;
    network: Network;
    preview: Preview;
    /** Null: its conversation says. */
    tools: ToolSettings | null;
    metadata: Record<string, unknown>;
    ttlSeconds: number;
    createdAt: string;
    enforcement: Record<string, string>;
}
export interface SandboxChanges {
    limits?: Partial<Limits>;
    network?: Network;
    preview?: Partial<Preview>;
    tools?: Partial<ToolSettings>;
    ttlSeconds?: number;
}
export interface NewSandbox extends SandboxChanges {
    userId?: string;
    metadata?: Record<string, unknown>;
    env?: Record<string, string>;
}
/** The resources that a sandbox uses now. Null: not known, as without processes. */
export interface SandboxMetrics {
    at: string;
    generation: number;
    status: SandboxStatus;
    memory: { usedBytes: number | null; limitBytes: number; peakBytes: number | null };
    cpu: { usageUs: number | null; limitPercent: number };
    processes: number | null;
    maxProcesses: number;
    sockets: number | null;
    maxSockets: number;
    disk: { usedBytes: number | null; inodes: number | null; limitBytes: number };
    /** Microseconds for which some, or all, of its processes waited. */
    pressure: Record<'memory' | 'cpu' | 'io', { someUs: number; fullUs: number } | null>;
}
/** A sandbox's token has no default scope. */
export interface NewSandboxToken {
    scope: 'files' | 'terminal' | 'preview';
    ttlSeconds?: number;
}
export interface LogEntry {
    seq: number;
    at: string;
    /** `output`: the sandbox wrote it. `system`: a note of the server. */
    stream: 'output' | 'system';
    generation: number;
    text: string;
}
export interface SandboxLog {
    entries: LogEntry[];
    /** The first entry that is kept. */
    firstSeq: number;
    /** `after` of the next call. */
    next: number;
}
export interface Sandboxes {
    /** Makes a sandbox without a conversation. */
    create(form?: NewSandbox & Cancellable): Promise<Sandbox>;
    get(id: string, options?: Cancellable): Promise<Sandbox>;
    list(filter?: { userId?: string; limit?: number } & Cancellable): Iteration<Sandbox>;
}

/** A script for `bash -c`, or a program with its arguments. */
export type Program = string | string[];
export interface ExecOptions extends Abortable {
    cwd?: string;
    env?: Record<string, string>;
    stdin?: string | Uint8Array;
    /** Until the program is ended, not the call: 30,000 by default, 3,600,000 at most. Above 60,000 see `Exec`. */
    timeoutMs?: number;
    /** The most bytes of stdout, and of stderr, also of a stream: 1 MiB by default, 16 MiB at most. What comes behind is dropped (`truncated`). */
    maxOutputBytes?: number;
}
export interface ExecEnd {
    exitCode: number | null;
    signal: string | null;
    timedOut: boolean;
    durationMs: number;
    truncated: { stdout: boolean; stderr: boolean };
}
export interface ExecResult extends ExecEnd {
    /** Which bound of the server's memory for output cut it, where `maxOutputBytes` did not. */
    truncatedBy?: 'user_share' | 'capacity';
    /** The output as text; bytes that are not UTF-8 are U+FFFD in it. */
    readonly stdout: string;
    readonly stderr: string;
    readonly stdoutBytes: Uint8Array;
    readonly stderrBytes: Uint8Array;
}
export type ExecFrame = { type: 'stdout' | 'stderr'; readonly data: string; readonly bytes: Uint8Array } | ({ type: 'exit' } & ExecEnd);
export interface Exec {
    /**
     * Runs a program to its end. An exit code that is not 0 is a result, not an error. Nothing comes before the end, and what
     * ends silent connections ends the program: a proxy (nginx after 60 s), Node's fetch (after 5 minutes). Take `stream` for longer ones.
     */
    (program: Program, options?: ExecOptions): Promise<ExecResult>;
    /** The same, with the output as it comes, and a heartbeat while there is none. Ending the iteration ends the program. */
    stream(program: Program, options?: ExecOptions): Iteration<ExecFrame>;
}

export interface Sandbox {
    readonly id: string;
    info: SandboxInfo | null;
    readonly exec: Exec;
    /** The same as that of the client, with the tools of this sandbox. The program does not run in it. */
    readonly execute: Execute;
    readonly files: Files;
    readonly processes: Processes;
    readonly tools: Tools;
    /** A shell on a terminal. */
    terminal(options?: TerminalOptions): Promise<Terminal>;
    refresh(options?: Cancellable): Promise<this>;
    /** Changes a sandbox without a conversation; that of a conversation is changed by `conversation.update()`. */
    update(changes: SandboxChanges, options?: Cancellable): Promise<this>;
    delete(options?: Cancellable): Promise<void>;
    /** Deletes it: `await using sandbox = await atoll.sandboxes.create()`. That of a conversation is deleted with its conversation alone. */
    [Symbol.asyncDispose](): Promise<void>;
    /** That of its conversation, or of one without. */
    previewUrl(port?: number, options?: Cancellable): Promise<string | null>;
    metrics(options?: Cancellable): Promise<SandboxMetrics>;
    /** The end of what the sandbox wrote, and the server's notes of its life. */
    logs(options?: { after?: number; stream?: 'output' | 'system' } & Cancellable): Promise<SandboxLog>;
    createToken(options: NewSandboxToken & Cancellable): Promise<Token>;
}

export * from './files.js';

// Processes

export interface TerminalSize {
    cols: number;
    rows: number;
}
export interface ProcessOptions extends Abortable {
    cwd?: string;
    env?: Record<string, string>;
    /** A terminal in place of pipes. */
    pty?: TerminalSize;
    /** Without a terminal: a pipe that stays open (the default), or /dev/null. */
    stdin?: 'pipe' | 'null';
    timeoutMs?: number;
    /** A name to find it by. */
    tag?: string;
    /** Started again, as another process, in each generation of the conversation's sandbox, until SIGTERM or SIGKILL. */
    restart?: 'never' | 'generation';
}
export interface ProcessInfo {
    /** Opaque and never used again, unlike a pid. */
    processId: string;
    /** Null while it is stopped. */
    pid: number | null;
    tag: string | null;
    restart: 'never' | 'generation';
    /** Stopped: not there, and started again with the next generation of the sandbox. */
    status: 'running' | 'ended' | 'stopped';
    startedAt: string | null;
    /** The number of the first byte of its output that is kept, and how many there were. */
    firstByte: number;
    endByte: number;
    exitCode?: number | null;
    signal?: string | null;
    timedOut?: boolean;
    [more: string]: unknown;
}
export interface Processes {
    /** A process that lives on unattended. */
    start(program: Program, options?: ProcessOptions): Promise<ProcessInfo>;
    list(options?: { tag?: string } & Cancellable): Promise<ProcessInfo[]>;
    get(processId: string, options?: Cancellable): Promise<ProcessInfo>;
    signal(processId: string, name: string, options?: Cancellable): Promise<void>;
    /** `eof` ends stdin behind the data. */
    stdin(processId: string, data: string | ArrayBuffer | Uint8Array, options?: { eof?: boolean } & Cancellable): Promise<{ bytes: number }>;
    resize(processId: string, size: TerminalSize, options?: Cancellable): Promise<void>;
    /** The output that is there from byte `after` on, without waiting for more: 64 KiB at most. Go on with `next` as `after`, until there is an `exit`. */
    output(processId: string, options?: { after?: number } & Cancellable): Promise<ProcessOutput>;
    /** Output from byte `after` on and, at last, `exit`. Ending the iteration ends nothing in the sandbox. */
    attach(processId: string, options?: { after?: number } & AttachOptions): Attachment;
}
export interface AttachOptions extends Abortable {
    /** `websocket` by default where there is one. `sse`: output comes as an event stream, input goes by POSTs. */
    transport?: 'sse' | 'websocket';
    getToken?: GetToken;
}
export interface ProcessOutput {
    after: number;
    /** `after` + `dropped` + the bytes of both streams. */
    next: number;
    /** So many bytes at the beginning are not kept any more. */
    dropped: number;
    /** Text; bytes that are not UTF-8 are U+FFFD in it. */
    readonly stdout: string;
    readonly stderr: string;
    readonly stdoutBytes: Uint8Array;
    readonly stderrBytes: Uint8Array;
    /** The process has ended, and nothing comes behind `next`. */
    exit?: { exitCode: number | null; signal: string | null; timedOut: boolean };
}
export type ProcessFrame =
    | { type: 'stdout' | 'stderr'; bytes: Uint8Array }
    | { type: 'started'; pid: number; after: number; pty: boolean }
    | { type: 'dropped'; bytes: number }
    | { type: 'rejected'; code: string; detail: string }
    | { type: 'exit'; exitCode: number | null; signal: string | null; timedOut: boolean; after: number };
export interface Attachment extends Iteration<ProcessFrame> {
    /** The bytes of both streams so far: `after` of another attachment that goes on here. */
    readonly after: number;
    /**
     * Sends to stdin. What was sent on a connection that then broke may be lost. Where the server refuses input because there were too many
     * requests, the attachment ends with `input_refused`; without a WebSocket also where the process reads none for 30 s.
     */
    write(data: string | ArrayBuffer | Uint8Array): void;
    resize(size: TerminalSize): void;
    signal(name: string): void;
    /** Closes stdin. */
    eof(): void;
    close(): Promise<void>;
}
export interface TerminalOptions extends Partial<TerminalSize>, AttachOptions {
    /** `bash -il` by default. */
    program?: Program;
    cwd?: string;
    env?: Record<string, string>;
    tag?: string;
}
export interface Terminal {
    readonly processId: string;
    /** Calls with all output; of what came before the first listener the last 1 MiB is kept for it. Returns what ends that. */
    onData(call: (bytes: Uint8Array) => void): () => void;
    /** Calls once: the process has ended, or it cannot be reached any more. */
    onExit(call: (end: { type: 'exit'; exitCode: number | null; signal: string | null } | { error: unknown }) => void): () => void;
    write(data: string | ArrayBuffer | Uint8Array): void;
    resize(size: TerminalSize): void;
    /** Leaves the process running. */
    detach(): Promise<void>;
    /** Hangs up: the process gets SIGHUP, and SIGKILL a second later if it goes on. */
    close(options?: Abortable): Promise<void>;
}
