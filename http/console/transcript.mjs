// Turns the events of a conversation's log into a list of small display operations for each event. Pure.
// An agent's data may be of any type and size; here it becomes bounded text. Not here: the DOM, escape sequences.
import { denialText } from './network.mjs';
import { choicesOf, decisionText, isId, questionText } from './questions.mjs';
import { callOf, planOf, resultParts } from './tools.mjs';
import { MAX_VALUE, asText, bytes, cut, sentence, word } from './words.mjs';

const MAX_CLOSINGS = 64;
const MAX_RAW = 4096; // characters of an event that has no look of its own
const MAX_ASKED = 64; // permissions of one turn that wait
// Operations that stand where they come: text after them is a new block, and a thought has ended.
const SPLITS = new Set(['question', 'tool', 'result', 'asked', 'decided', 'error', 'incident', 'note', 'complete', 'end']);

// A pause that nothing went wrong for: its whole sentence but for the first word.
const CALM_PAUSES = {
    user: '',
    idle: ' after a while without messages',
    evicted: ' to make room for other sandboxes',
    server_restart: ' by a restart of the server',
};

// Why a sandbox ended, by the code of the turn's error, the reason of the pause, or the class of the end.
const CAUSES = {
    agent_crashed: 'The agent ended unexpectedly.',
    agent_failed: 'The agent could not be started.',
    oom: 'The sandbox ran out of memory.',
    disk: 'The sandbox used up its disk space.',
    disk_limit: 'The sandbox used up its disk space.',
    setup_failed: 'The sandbox could not be started.',
};
// The limit that a higher one would have kept from ending the sandbox.
const LIMIT_OF = { oom: 'memoryMb', disk: 'diskMb', disk_limit: 'diskMb' };
const ERRORS = new Set(['agent_crashed', 'agent_failed', 'oom', 'disk_limit', 'sandbox_crashed', 'sandbox_failed']);

// The resources whose warnings give bytes, each with its sentence.
const SHORT_OF_BYTES = {
    memory: 'The sandbox runs short of memory',
    memory_pressure: 'Processes in the sandbox wait for memory',
    disk: 'The sandbox runs short of disk',
};

/** The place of an event in the telling of an end; -1: it is no part of one. */
function partOf(type, data) {
    if (type === 'resource_warning') return Object.hasOwn(SHORT_OF_BYTES, data.resource) ? 0 : -1;
    if (type === 'error') return ERRORS.has(data.code) ? 1 : -1;
    if (type === 'sandbox_terminated') return 2;
    return type === 'sandbox_paused' ? 3 : -1;
}
// The events that may stand between two parts.
const BETWEEN = new Set(['turn_complete', 'done', 'port_closed', 'egress_denied', 'egress_closed', 'egress_request', 'egress_resolved']);

/** The events that together tell of one end of a sandbox: a warning, the turn's error, the end, the pause. */
class Incident {
    #part = -1; // the last one
    #seqs = [];
    #details = [];
    #code = '';
    #end = {};
    #reason = '';
    #needless = [];

    /** Takes an event that goes on with it; false: it is none of it. `closings`: of the ports that closed directly before. */
    add({ type, seq }, data, closings) {
        if (BETWEEN.has(type)) return true;
        const part = partOf(type, data);
        if (part <= this.#part) return false;
        this.#part = part;
        this.#seqs.push(seq);
        if (type === 'resource_warning') return true;
        if (type === 'error') this.#code = data.code;
        if (type === 'sandbox_terminated') {
            this.#end = data;
            this.#needless = [...closings, seq];
        }
        if (type === 'sandbox_paused') this.#reason = word(data.reason);
        const detail = sentence(cut(asText(type === 'error' ? data.message : data.detail), MAX_VALUE));
        if (detail !== '' && !this.#details.includes(detail)) this.#details.push(detail);
        return true;
    }

    /** The seqs of what a pause without a fault needs not tell: the ports that it closed, and the end of the sandbox. */
    get needless() {
        return this.#needless.join();
    }

    /** The card in place of the lines that showed its events. */
    card(turn) {
        const lines = [...this.#details];
        const { limitBytes, peakBytes } = this.#end;
        const used = typeof peakBytes === 'number' ? `, used at most: ${bytes(peakBytes)}` : '';
        if (typeof limitBytes === 'number') lines.push(`Limit: ${bytes(limitBytes)}${used}.`);
        if (this.#reason !== '') lines.push('The conversation is paused. The next message starts a new sandbox with the same files.');
        const cause = [this.#code, this.#reason, word(this.#end.class)].find((name) => Object.hasOwn(CAUSES, name));
        return {
            op: 'incident',
            turn,
            key: this.#seqs[0],
            others: this.#seqs.slice(1).join(),
            title: cause === undefined ? 'The sandbox ended unexpectedly.' : CAUSES[cause],
            text: lines.join('\n'),
            raise: LIMIT_OF[cause] ?? '',
        };
    }
}

export class Transcript {
    #turns = new Map(); // name -> {block, kind, since, failed, at, asked}
    #open = null;
    #last = 0;
    #incident = new Incident();
    #closings = []; // seqs of the port_closed events that came last

    /** No turn was seen. */
    get isEmpty() {
        return this.#turns.size === 0;
    }

    /** The turn that has begun and not ended, or null. */
    get openTurn() {
        return this.#open;
    }

    /**
     * The operations that show `event`, each with its seq; none for what was applied already. What happens to the
     * sandbox while a turn is open is shown within that turn, so that the page has the order of the log.
     */
    apply(event) {
        if (event.seq <= this.#last) return [];
        const operations = [];
        if (event.seq > this.#last + 1)
            operations.push(note(null, 'calm', `Events ${this.#last + 1} to ${event.seq - 1} are no longer kept.`));
        this.#last = event.seq;
        const data = event.data !== null && typeof event.data === 'object' ? event.data : {};
        const turn = typeof event.turn === 'string' ? event.turn : null;
        if (turn !== null) {
            if (!this.#turns.has(turn)) this.#turn(turn, event.at);
            this.#turns.get(turn).at ??= event.at;
            operations.push({ op: 'turn', turn, at: event.at });
        }
        if (!this.#incident.add(event, data, this.#closings)) {
            this.#incident = new Incident();
            this.#incident.add(event, data, this.#closings);
        }
        this.#closings = event.type === 'port_closed' ? [...this.#closings, event.seq].slice(-MAX_CLOSINGS) : [];
        const its = turn ?? this.#open;
        const shown = this.#operations(event, its, data);
        if (shown.some(({ op }) => SPLITS.has(op))) operations.push(...this.#part(its, null, event.at));
        operations.push(...shown);
        for (const operation of operations) operation.seq = event.seq;
        return operations;
    }

    #turn(turn, at) {
        this.#turns.set(turn, { block: 0, kind: null, since: at, failed: false, at, asked: new Map() });
        this.#open = turn;
        // Only the open one is asked for again.
        if (this.#turns.size > 1000) this.#turns.delete(this.#turns.keys().next().value);
    }

    #text(turn, kind, text, time) {
        const state = this.#turns.get(turn);
        if (state === undefined || text === '') return [];
        const ended = state.kind === kind ? [] : this.#part(turn, kind, time);
        return [...ended, { op: 'text', turn, kind, block: `${turn}/${state.block}`, text }];
    }

    /** Ends the block; the next one is of `kind`. Gives the operation that ends a thought. */
    #part(turn, kind, time) {
        const state = this.#turns.get(turn);
        if (state === undefined) return [];
        const block = `${turn}/${state.block}`;
        const ended = state.kind === 'thinking' ? [{ op: 'thought', turn, block, ms: msBetween(state.since, time) }] : [];
        if (kind !== null) ++state.block;
        Object.assign(state, { kind, since: time });
        return ended;
    }

    #operations(event, turn, data) {
        if (event.type === 'text_delta') return this.#text(turn, data.stream === 'stderr' ? 'stderr' : 'text', asText(data.delta), event.at);
        if (event.type === 'thinking_delta') return this.#text(turn, 'thinking', asText(data.delta), event.at);
        // It comes with each connection: too many to show.
        if (event.type === 'egress_closed') return [];
        switch (event.type) {
            case 'turn_start':
                return [{ op: 'question', turn, text: cut(asText(data.content), MAX_VALUE), by: word(data.by) }];
            case 'tool_use': {
                const tool = { op: 'tool', turn, ...callOf(data) };
                // The plan of claude is the input of a tool.
                return tool.name === 'TodoWrite' ? [{ ...tool, brief: '' }, { op: 'plan', turn, ...planOf(data.input?.todos) }] : [tool];
            }
            case 'tool_result':
                return [{ op: 'result', turn, id: word(data.toolUseId), parts: resultParts(data), isError: data.isError === true }];
            case 'plan':
                return [{ op: 'plan', turn, ...planOf(data.entries) }];
            case 'permission_request': {
                if (!isId(data.id)) return [];
                const asked = this.#turns.get(turn)?.asked;
                if (asked?.size < MAX_ASKED && !asked.has(word(data.id))) asked.set(word(data.id), choicesOf(data.options));
                return [{ op: 'asked', turn, id: word(data.id), tool: word(data.toolUseId) }];
            }
            case 'permission_resolved': {
                const asked = this.#turns.get(turn)?.asked;
                const text = decisionText(data, asked?.get(word(data.id)));
                asked?.delete(word(data.id));
                return [{ op: 'decided', turn, id: word(data.id), text, isAllowed: data.outcome === 'allowed' }];
            }
            case 'message':
                return [raw(turn, word(data.type) || 'message', data)];
            case 'turn_complete': {
                const exitCode = Number.isInteger(data.exitCode) ? data.exitCode : null;
                return [{ op: 'complete', turn, result: word(data.result), exitCode }];
            }
            case 'error': {
                const state = this.#turns.get(turn);
                if (state !== undefined) state.failed = true;
                return [{ op: 'error', turn, code: word(data.code), text: cut(asText(data.message), MAX_VALUE) }];
            }
            case 'done': {
                const state = this.#turns.get(turn);
                if (this.#open === turn) this.#open = null;
                return [{ op: 'end', turn, failed: state?.failed ?? false, ms: msBetween(state?.at, event.at) }];
            }
            case 'session_start':
                return [note(turn, 'calm', `The conversation begins with the agent ${word(data.agent)}.`)];
            case 'sandbox_ready':
                return [note(turn, 'calm', 'The sandbox is ready.'), { op: 'changed' }];
            case 'sandbox_resumed':
                if (data.mode === 'warm') return [note(turn, 'calm', 'Resumed where it was.'), { op: 'changed' }];
                return [note(turn, 'calm', `Resumed in a new sandbox (generation ${word(data.generation)}).`), { op: 'changed' }];
            case 'sandbox_paused': {
                const reason = word(data.reason);
                const isCalm = Object.hasOwn(CALM_PAUSES, reason);
                if (!isCalm && data.mode !== 'warm') return [this.#incident.card(turn), { op: 'changed' }];
                const what = data.mode === 'warm' ? 'Frozen' : 'Paused';
                const kept = data.mode === 'warm' ? ' What runs in the sandbox is kept.' : '';
                const text = `${what}${isCalm ? CALM_PAUSES[reason] : ` (${reason})`}.${kept}`;
                return [{ ...note(turn, isCalm ? 'calm' : 'warning', text), others: this.#incident.needless }, { op: 'changed' }];
            }
            case 'sandbox_terminated': {
                if (!['exited', 'stopped', 'killed'].includes(data.class)) return [this.#incident.card(turn), { op: 'changed' }];
                const why = word(data.detail) || [word(data.class), data.code ? `code ${word(data.code)}` : ''].filter((w) => w !== '').join(', ');
                return [note(turn, 'calm', `The sandbox ended: ${why}.`), { op: 'changed' }];
            }
            case 'output_truncated':
                return [note(turn, 'warning', `Output was cut: ${bytes(data.droppedBytes)} dropped.`)];
            case 'resource_warning': {
                const isBytes = Object.hasOwn(SHORT_OF_BYTES, data.resource);
                const amount = isBytes ? bytes : word;
                const what = isBytes ? SHORT_OF_BYTES[data.resource] : `The sandbox runs short of ${word(data.resource)}`;
                return [note(turn, 'warning', `${what}: ${amount(data.used)} of ${amount(data.limit)} used.`)];
            }
            case 'port_opened':
                return [{ ...note(turn, 'calm', `Port ${word(data.port)} is open.`), url: word(data.url) }];
            case 'port_closed':
                return [note(turn, 'calm', `Port ${word(data.port)} is closed.`)];
            case 'egress_denied':
                return [note(turn, 'warning', denialText({ ...event, data }) ?? 'A connection was refused.')];
            case 'egress_request':
            case 'egress_resolved':
                return [note(turn, 'calm', questionText({ ...event, data }))];
            default:
                return [raw(turn, word(event.type), data)];
        }
    }
}

function note(turn, tone, text) {
    return { op: 'note', turn, tone, text };
}

function raw(turn, kind, data) {
    return { op: 'message', turn, kind, text: cut(asText(data), MAX_RAW) };
}

/** Null where a time is missing. */
function msBetween(from, to) {
    const ms = from ? Date.parse(to) - Date.parse(from) : NaN;
    return Number.isFinite(ms) ? ms : null;
}
