// Types of code mode (docs/code-mode.md).
import type { Abortable, Cancellable, GetToken, Iteration, NewToken, Token } from './index.js';

/** A call of a tool as the program made it. */
export interface ProgramCall {
    callId: string;
    name: string;
    args: unknown[];
    /** `ask`: decide first. */
    policy: 'allow' | 'ask';
    /** `sandbox`: it answers the call itself. */
    answeredBy: 'caller' | 'sandbox';
}
export interface ToolDescription {
    /** The program calls `codemode.NAME(…)`. */
    name: string;
    description?: string;
    /** A schema of type `array` is for the list of arguments, another one for the only argument. */
    inputSchema?: Record<string, unknown>;
    /** `allow` by default. */
    policy?: 'allow' | 'ask' | 'deny';
}
export interface ProgramTool extends ToolDescription {
    /** Answers a call, here. What it throws is an exception in the program, and so is a result that JSON cannot hold. Not for tools of a sandbox, which answers them. */
    run?: (...args: any[]) => unknown;
    /** Decides if a call of a tool with policy `ask` may go on. Without this function none may. */
    decide?: (call: ProgramCall) => boolean | Promise<boolean>;
}
export type Language = 'javascript' | 'typescript' | 'python';
export interface ExecuteOptions<Tool extends ToolDescription = ProgramTool> extends Abortable {
    language?: Language;
    /** A name of `executors()`; `auto` by default. */
    executor?: string;
    userId?: string;
    /** Until the program is ended, from when its engine is ready: 30,000 by default, 60,000 at most. */
    timeoutMs?: number;
    memoryMb?: number;
    cpuPercent?: number;
    maxOutputBytes?: number;
    maxCalls?: number;
    tools?: Tool[];
    /** `sandbox.execute` only: which of the sandbox's tools the program may call; all but `run_command` by default. */
    sandboxTools?: 'none' | string[];
}
export interface ProgramLog {
    level: 'log' | 'info' | 'warn' | 'error' | 'debug';
    text: string;
}
export interface ToolWarning {
    tool: string;
    /** A keyword of JSON Schema, such as `pattern`. */
    keyword: string;
    why: string;
}
export interface ToolDeclarations {
    /** `declare const codemode: {…}`. */
    declarations: string;
    /** The keywords of the tools' schemas that the server cannot check, which are up to you. */
    warnings: ToolWarning[];
}
export interface ProgramOutcome {
    /** Absent: it returned nothing. What JSON has not is `{$atoll: KIND, …}`. */
    result?: any;
    /** Why it has no result: that a program failed is no error of the call. */
    error?: {
        kind: 'syntax' | 'runtime' | 'timeout' | 'memory' | 'cancelled' | 'denied' | 'protocol' | 'crashed' | 'no_room';
        message: string;
        line?: number;
    };
    calls: { callId: string; name: string; status: 'answered' | 'failed' | 'denied' | 'refused' | 'unanswered' | 'open' | 'asked'; durationMs: number }[];
    durationMs: number;
    executor: string;
    /** The keywords of the tools' schemas that the server cannot check, which are up to you. */
    warnings?: ToolWarning[];
    executionId?: string;
}
export interface ProgramResult extends ProgramOutcome {
    logs: ProgramLog[];
}
interface ExecutionEventOf<Type extends string, Data> {
    seq: number;
    type: Type;
    at: string;
    data: Data;
}
export type ExecutionEvent =
    | ExecutionEventOf<'start', { executionId: string; executor: string; warnings?: ToolWarning[] }>
    | ExecutionEventOf<'log', ProgramLog>
    | ExecutionEventOf<'tool_call', ProgramCall>
    | ExecutionEventOf<'result', ProgramOutcome>
    | ExecutionEventOf<'done', {}>;

export interface Execute {
    /**
     * Runs a program to its end. Calls of `tools` are answered by their `run` and `decide`, as long as the program runs. Aborting ends
     * the program.
     */
    (code: string, options?: ExecuteOptions): Promise<ProgramResult>;
    /** Its events as they come; `executions.answer()` answers its calls. Ending the iteration ends the program. */
    stream(code: string, options?: ExecuteOptions<ToolDescription>): Iteration<ExecutionEvent>;
    /** Begins a program that goes on by itself; resolves with its id. `executions` follows it and answers its calls. */
    start(code: string, options?: ExecuteOptions<ToolDescription>): Promise<string>;
}

export interface ExecutionInfo {
    executionId: string;
    userId: string | null;
    /** `waiting`: in the line of its user. */
    status: 'waiting' | 'starting' | 'running' | 'ended';
    executor: string;
    language: Language;
    detached: boolean;
    createdAt: string;
    endedAt: string | null;
    lastSeq: number;
    openCalls: { callId: string; name: string; status: 'open' | 'asked' }[];
    /** Not in lists; null: it has not ended. */
    outcome?: ProgramResult | null;
}
/** `allow` and `deny` are of a call whose policy is `ask`, which then waits for its answer, too, unless the sandbox gives that. */
export type CallAnswer = { result: unknown } | { error: { message: string } } | { decision: 'allow' | 'deny' };

export interface Executor {
    name: string;
    available: boolean;
    /** Why it is not available. */
    reason?: string;
    version: string | null;
    languages: Language[];
    /** The isolation by the engine itself; the sandbox around it is the boundary. */
    isolates: string;
    weaknesses: string[];
}

/** Programs that run, or ended within the last 10 minutes. */
export interface Executions {
    list(filter?: { userId?: string; limit?: number } & Cancellable): Iteration<ExecutionInfo>;
    get(executionId: string, options?: Cancellable): Promise<ExecutionInfo>;
    /** Ends it; one that has ended stays as it is. */
    cancel(executionId: string, options?: Cancellable): Promise<ExecutionInfo>;
    /** Answers a call of a tool, or decides about it. */
    answer(executionId: string, callId: string, answer: CallAnswer, options?: Cancellable): Promise<void>;
    /** Its events, each once, to `done`, over connections that break. None where `after` is that of `done`. */
    follow(executionId: string, options?: { after?: number; getToken?: GetToken } & Abortable): Iteration<ExecutionEvent>;
    /** The engines, and whether each can run here. */
    executors(options?: Cancellable): Promise<Executor[]>;
    /** Tools as TypeScript, for the prompt of a model. */
    declarations(tools: ToolDescription[], options?: Cancellable): Promise<ToolDeclarations>;
    readonly tokens: {
        /** `read`: its events. `chat`: its WebSocket, too. */
        create(executionId: string, options?: { scope?: Extract<NewToken['scope'], 'read' | 'chat'>; ttlSeconds?: number } & Cancellable): Promise<Token>;
    };
}
