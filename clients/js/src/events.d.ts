// Types of the events in a conversation's log.

/** Why a conversation is paused. */
export type StatusReason = 'user' | 'idle' | 'oom' | 'disk' | 'crash' | 'evicted' | 'server_restart' | 'ttl';

/** How the processes of a sandbox ended (docs/events.md). */
export type ExitClass = 'exited' | 'signalled' | 'oom' | 'disk_limit' | 'stopped' | 'killed' | 'setup_failed' | 'lost';

export interface ToolWord {
    /** The `toolCallId` of the call's context; null: it had none. */
    toolCallId: string | null;
    toolName: string;
    /** From 0 to 1; null: not known. */
    progress: number | null;
    /** For people; may be empty. */
    message: string;
}

/** Where a program inside wanted to go (docs/egress.md). */
export interface EgressTarget {
    host: string;
    port: number;
    /** So many alike are told as one. */
    requests?: number;
    /** So many before were not told at all: there are too many. */
    omitted?: number;
}

/** A choice of a permission (docs/agents.md). */
export interface PermissionOption {
    optionId: string;
    name: string;
    kind: 'allow_once' | 'allow_always' | 'reject_once' | 'reject_always';
}

interface EventOf<Type extends string, Data> {
    seq: number;
    type: Type;
    at: string;
    turn: string | null;
    data: Data;
}
/** An event of a conversation's log (docs/events.md). */
export type AtollEvent =
    | EventOf<'session_start', { logEpoch: string; agent: string; sandboxId: string }>
    | EventOf<'turn_start', { content: string; idempotencyKey?: string; by?: string }>
    | EventOf<'text_delta', { delta: string; stream?: 'stdout' | 'stderr' }>
    | EventOf<'thinking_delta', { delta: string }>
    | EventOf<'tool_use', { id: string; name: string; input: Record<string, unknown> }>
    | EventOf<'tool_result', { toolUseId: string; content: unknown; isError: boolean }>
    | EventOf<'permission_request', { id: string; toolUseId: string; options: PermissionOption[] }>
    | EventOf<'permission_resolved', { id: string; outcome: 'allowed' | 'denied' | 'cancelled'; reason: 'answered' | 'policy' | 'timeout' | 'unattended' | 'withdrawn' | 'turn_ended'; optionId?: string }>
    | EventOf<'plan', { entries: unknown[] }>
    | EventOf<'message', Record<string, unknown>>
    | EventOf<'turn_complete', { result: string; exitCode?: number }>
    | EventOf<'error', { code: string; message: string }>
    | EventOf<'done', {}>
    | EventOf<'sandbox_ready', { generation: number }>
    | EventOf<'sandbox_paused', { reason: StatusReason; mode: 'cold' | 'warm'; detail: string }>
    | EventOf<'sandbox_resumed', { generation: number; mode: 'cold' | 'warm' }>
    | EventOf<'sandbox_terminated', { class: ExitClass; code: number; detail: string; limitBytes?: number; peakBytes?: number }>
    | EventOf<'output_truncated', { droppedBytes: number }>
    | EventOf<'resource_warning', { resource: string; used: number; limit: number }>
    | EventOf<'port_opened', { port: number; url: string | null }>
    | EventOf<'port_closed', { port: number }>
    | EventOf<'preview_changed', { url: string | null }>
    | EventOf<'egress_denied', EgressTarget & { reason: 'not_listed' | 'ip_literal' | 'private_address' | 'dns' | 'sni_mismatch' | 'not_tls' | 'limit' | 'rule'; route?: string }>
    | EventOf<'egress_closed', EgressTarget & { bytesUp: number; bytesDown: number; ms: number; route?: string }>
    | EventOf<'egress_request', { id: string; host: string; port: number }>
    | EventOf<'egress_resolved', { id: string; decision: 'once' | 'always' | 'deny' }>
    | EventOf<'files_changed', { changedFiles: string[]; toolCallId?: string }>
    | EventOf<'tool_progress', ToolWord & { status: 'running' | 'completed' | 'failed' }>;
