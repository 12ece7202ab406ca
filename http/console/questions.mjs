// The questions that wait for a person: hosts that a program inside asks for, and tools that the agent asks to use. Pure.
import { harmless } from './ansi.mjs';
import { briefly } from './tools.mjs';
import { isObject, word } from './words.mjs';

const MAX_TOOLS = 1000; // of one turn, known by name
// The server's bounds.
const MAX_OPEN = 64 + 5; // permissions and hosts
const MAX_OPTIONS = 16;
const MAX_ID_BYTES = 512;
const MAX_NAME = 80;

const HOST_CHOICES = [
    { value: 'once', text: 'Allow once', means: 'Allow once', isReject: false },
    { value: 'always', text: 'Always allow', means: 'Always allow', isReject: false },
    { value: 'deny', text: 'Deny', means: 'Deny', isReject: true },
];
const DECISIONS = { once: 'Allowed once.', always: 'Allowed from now on.', deny: 'Denied.' };
const KINDS = { allow_once: 'Allow once', allow_always: 'Always allow', reject_once: 'Reject', reject_always: 'Always reject' };

/** A line for the transcript, of an event egress_request or egress_resolved. */
export function questionText({ type, data: { host, port, decision } }) {
    if (type === 'egress_resolved') return Object.hasOwn(DECISIONS, decision) ? DECISIONS[decision] : 'Decided.';
    return `A program inside asks for ${harmless(String(host).slice(0, 255))} port ${Number(port)}.`;
}

/** True for an id that the server takes: a question with another one is not decided. */
export const isId = (id) => typeof id === 'string' && id !== '' && new TextEncoder().encode(id).length <= MAX_ID_BYTES;
const nameOf = ({ name, kind }) => harmless(word(name, MAX_NAME)) || KINDS[kind];

/** The options of a permission_request that the server takes, as choices {value, text, means, isReject}: `text` is the agent's word, `means` ours. */
export function choicesOf(options) {
    const taken = new Map(); // by id: the first of an id is the one that the server takes
    const isTaken = (option) => isObject(option) && isId(option.optionId) && typeof option.kind === 'string' && option.kind !== '';
    for (const option of (Array.isArray(options) ? options : []).filter(isTaken).slice(0, MAX_OPTIONS)) {
        if (!taken.has(option.optionId)) taken.set(option.optionId, option);
    }
    const known = [...taken.values()].filter(({ kind }) => Object.hasOwn(KINDS, kind));
    return known.map((option) => {
        const isReject = option.kind.startsWith('reject');
        return { value: option.optionId, text: nameOf(option), means: KINDS[option.kind], isReject };
    });
}

/** A permission_resolved in words; `choices` are those of its request. */
export function decisionText({ outcome, reason, optionId }, choices = []) {
    const what = outcome === 'allowed' ? 'Allowed' : outcome === 'denied' ? 'Refused' : 'Cancelled';
    const chosen = choices.find(({ value }) => value === optionId);
    if (reason === 'answered') return chosen === undefined ? `${what}: somebody answered.` : `${what}: somebody chose “${chosen.text}”.`;
    if (reason === 'policy') return `${what} by the policy of the agent.`;
    if (reason === 'timeout') return `${what}: nobody answered in time.`;
    if (reason === 'unattended') return `${what}: nobody followed the conversation.`;
    if (reason === 'withdrawn') return `${what}: the agent took it back.`;
    if (reason === 'turn_ended') return `${what}: its turn ended before an answer.`;
    return `${what}.`;
}

/** The open questions, by a key that no other one has. */
export class Questions {
    #open = new Map();
    #tools = new Map(); // of the open turn: id -> {name, brief, seq}
    #pastUntil;

    /** `lastSeq`: of the log when it was opened; 0: not known. What was asked before it is decided by now, for the most part. */
    constructor(lastSeq = 0) {
        this.#pastUntil = lastSeq;
    }

    /** True if what waits has changed. It has not while the log is read up to where it was opened, and has once there. */
    apply(event) {
        const isChanged = this.#change(event);
        if (event.seq < this.#pastUntil) return false;
        const isAsked = this.#pastUntil > 0 && this.#open.size > 0;
        this.#pastUntil = 0;
        return isChanged || isAsked;
    }

    #change({ type, seq, turn, data }) {
        const { id, mode } = isObject(data) ? data : {};
        switch (type) {
            case 'turn_start':
                this.#tools.clear();
                return false;
            case 'tool_use':
                if (isObject(data)) this.#tools.set(word(id), { ...briefly(data), seq });
                if (this.#tools.size > MAX_TOOLS) this.#tools.delete(this.#tools.keys().next().value);
                return false;
            case 'egress_request':
                if (typeof id !== 'string' || typeof data.host !== 'string' || !Number.isInteger(data.port)) return false;
                return this.#ask(`host ${id}`, { kind: 'host', id, title: `${harmless(data.host.slice(0, 255))}:${data.port}`, detail: '', choices: HOST_CHOICES });
            case 'permission_request': {
                if (!isId(id)) return false;
                const tool = word(data.toolUseId);
                const { name = 'a tool', brief = '', seq: shownAt = seq } = this.#tools.get(tool) ?? {};
                const choices = choicesOf(data.options);
                // Where the agent offers no way to refuse, this is one.
                if (!choices.some(({ isReject }) => isReject)) choices.push({ value: null, text: 'Refuse', means: 'Cancel', isReject: true });
                return this.#ask(`tool ${id}`, { kind: 'tool', id, turn, shownAt, title: harmless(name) || 'a tool', detail: harmless(brief), choices });
            }
            case 'egress_resolved':
                return this.drop(`host ${id}`);
            case 'permission_resolved':
                return this.drop(`tool ${id}`);
            case 'done':
                return this.#forget((question) => question.kind === 'tool' && question.turn === turn);
            // None outlives its generation, which goes on after a freeze.
            case 'sandbox_paused':
                return mode !== 'warm' && this.#forget(() => true);
            case 'sandbox_terminated':
                return this.#forget(() => true);
            default:
                return false;
        }
    }

    // The server knows the first of two with the same id.
    #ask(key, question) {
        if (this.#open.has(key) || this.#open.size >= MAX_OPEN) return false;
        this.#open.set(key, { key, ...question });
        return true;
    }

    has(key) {
        return this.#open.has(key);
    }

    /** It does not wait any more. True if it did. */
    drop(key) {
        return this.#open.delete(key);
    }

    #forget(isOver) {
        const over = this.shown.filter(isOver);
        for (const { key } of over) this.drop(key);
        return over.length > 0;
    }

    get shown() {
        return [...this.#open.values()];
    }
}
