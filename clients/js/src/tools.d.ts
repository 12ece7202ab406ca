// Tools that models call.
import type { ToolWord } from './events.js';
import type { Abortable, Cancellable, Iteration } from './index.js';

type Described<Schema extends string> = { name: string; description: string } & Record<Schema, Record<string, unknown>>;
interface ToolForms {
    'json-schema': Described<'inputSchema'>;
    openai: { type: 'function'; function: Described<'parameters'> };
    anthropic: Described<'input_schema'>;
    gemini: Described<'parameters'>;
}
export type ToolFormat = keyof ToolForms;
export interface ToolList<Format extends ToolFormat = ToolFormat> {
    format: Format;
    /** The `tools` of a request to a model. */
    tools: ToolForms[Format][];
}
export interface ToolResult {
    success: boolean;
    data?: any;
    /** For the person in the chat. */
    userFeedback: string;
    previewRefreshNeeded: boolean;
    /** For the model. */
    technicalDetails?: { error?: string; errorCode?: string; [more: string]: unknown };
    changedFiles?: string[];
    warnings?: string[];
    suggestions?: string[];
    /** That of the call. */
    context?: Record<string, unknown>;
}
export type ToolFrame =
    | ({ type: 'tool_progress'; status: 'started' | 'running' } & ToolWord)
    | { type: 'tool_result'; toolCallId: string | null; toolName: string; result: ToolResult };
export interface Tools {
    /** The tools of this sandbox: those that are switched off in it are left out. */
    <Format extends ToolFormat = 'json-schema'>(format?: Format, options?: Cancellable): Promise<ToolList<Format>>;
    /** Runs a tool in this sandbox. A tool that failed is a result with `success: false`, not an error. */
    call(name: string, args: Record<string, unknown>, context?: Record<string, unknown>, options?: Cancellable): Promise<ToolResult>;
    /** The same, with its progress; the result is the last frame. Ending the iteration ends a search or a command. */
    stream(name: string, args: Record<string, unknown>, context?: Record<string, unknown>, options?: Abortable): Iteration<ToolFrame>;
}
