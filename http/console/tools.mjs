// A tool call for people: its name, a line about it, and its input and result in parts. Agents name the members of an input as they like:
// the names here are those of claude, codex, copilot, gemini and opencode. Pure and bounded.
import { diffOf } from './diff.mjs';
import { MAX_VALUE, asText, bytes, isObject, word } from './words.mjs';

const MAX_BRIEF = 160;
const MAX_PARTS = 50;

const PATH = ['file_path', 'filePath', 'path', 'notebook_path'];
const OLD = ['old_string', 'oldString', 'old_str', 'oldText'];
const NEW = ['new_string', 'newString', 'new_str', 'newText'];
const WHOLE = ['content', 'file_text', 'contents'];
const COMMAND = ['command', 'cmd'];
const OUTPUT = ['output', 'stdout', 'stderr', 'aggregated_output', 'formatted_output'];
const BRIEF = [...COMMAND, ...PATH, 'pattern', 'query', 'url', 'description', 'prompt'];

const isText = (value) => typeof value === 'string' && value !== '';
const isCommand = (value) => isText(value) || (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string'));
const commandOf = (value) => (typeof value === 'string' ? value : value.join(' '));

function textPart(text) {
    return { kind: 'text', text: text.slice(0, MAX_VALUE), more: Math.max(0, text.length - MAX_VALUE) };
}

const notePart = (text) => ({ kind: 'note', text: word(text) });

// The difference is made in bounded(), where it is known how many are shown.
const diffPart = (path, before, after) => ({ kind: 'diff', path, before, after });

function bounded(parts) {
    const all = parts.filter(({ text }) => text !== '');
    const first = all.slice(0, MAX_PARTS);
    const share = first.filter(({ kind }) => kind === 'diff').length;
    const shown = first.map((part) => {
        if (part.kind !== 'diff') return part;
        const { kind, path, before, after } = part;
        return { kind, path: word(path), ...diffOf(asText(before), asText(after), share) };
    });
    return all.length <= MAX_PARTS ? shown : [...shown, notePart(`${all.length - MAX_PARTS} parts more are in the log.`)];
}

/** Texts in a row become one. */
function joined(parts) {
    const all = [];
    for (const part of parts) {
        const last = all.at(-1);
        if (part.kind === 'text' && last?.kind === 'text' && last.more === 0) all.splice(-1, 1, textPart(`${last.text}\n${part.text}`));
        else all.push(part);
    }
    return all;
}

/** Removes the first of the members that holds such a value; undefined: none does. */
function take(object, names, isWanted) {
    const name = names.find((one) => Object.hasOwn(object, one) && isWanted(object[one]));
    if (name === undefined) return undefined;
    const value = object[name];
    delete object[name];
    return value;
}

const isString = (value) => typeof value === 'string';

/** The changes of files that an input names are taken out of it. */
function takeEdits(rest, name) {
    const path = PATH.map((member) => rest[member]).find(isText);
    const isEdit = (edit) => isObject(edit) && [OLD, NEW].every((names) => names.some((member) => isString(edit[member])));
    const parts = [];
    const add = (before, after) => parts.push(diffPart(path, before, after));
    if (isEdit(rest)) add(take(rest, OLD, isString), take(rest, NEW, isString));
    else if (Array.isArray(rest.edits) && rest.edits.length > 0 && rest.edits.length <= MAX_PARTS && rest.edits.every(isEdit)) {
        for (const one of take(rest, ['edits'], Array.isArray)) {
            const edit = { ...one };
            add(take(edit, OLD, isString), take(edit, NEW, isString));
            if (Object.keys(edit).length > 0) parts.push(textPart(asText(edit)));
        }
    } else if (path !== undefined && /write|create|edit/i.test(name)) {
        const whole = take(rest, WHOLE, isString);
        if (whole !== undefined) add('', whole);
    }
    if (parts.length > 0 && path !== undefined) take(rest, PATH, isText);
    return parts;
}

function inputParts(input, name) {
    if (!isObject(input)) return [textPart(asText(input))];
    const rest = { ...input };
    const parts = takeEdits(rest, name);
    const command = take(rest, COMMAND, isCommand);
    if (command !== undefined) parts.push(textPart(commandOf(command)));
    if (Object.keys(rest).length > 0) parts.push(textPart(asText(rest)));
    return parts;
}

function sizeOf(base64) {
    return isText(base64) ? `, ${bytes(Math.floor((base64.length * 3) / 4))}` : '';
}

/** A block of content, as models and ACP have them. Pictures and the like are described. */
function blockParts(block) {
    if (!isObject(block)) return [textPart(asText(block))];
    const { type } = block;
    if (type === 'text') return [textPart(asText(block.text))];
    if (type === 'content') return blockParts(isObject(block.content) && block.content.type !== 'content' ? block.content : asText(block.content));
    if (type === 'diff') return [diffPart(block.path, block.oldText, block.newText)];
    if (type === 'image' || type === 'audio') {
        const { source } = block;
        const what = word(block.mimeType ?? source?.media_type) || 'of an unknown type';
        return [notePart(`${type === 'image' ? 'A picture' : 'A sound'}, ${what}${sizeOf(block.data ?? source?.data)}: not shown here.`)];
    }
    if (type === 'terminal') return [notePart(`The output of the agent's terminal ${word(block.terminalId)}.`)];
    if (type === 'resource_link') return [notePart(`A link to ${word(block.uri)}`)];
    if (type === 'resource') {
        const { uri, text, mimeType, blob } = isObject(block.resource) ? block.resource : {};
        if (isText(text)) return [notePart(uri), textPart(text)];
        return [notePart(`The resource ${word(uri)}, ${word(mimeType) || 'of an unknown type'}${sizeOf(blob)}: not shown here.`)];
    }
    return [textPart(asText(block))];
}

function contentParts(content) {
    if (Array.isArray(content) && content.length > 0 && content.every((block) => isText(block?.type))) return content.flatMap(blockParts);
    if (!isObject(content)) return [textPart(asText(content))];
    if (isText(content.type)) return blockParts(content);
    const rest = { ...content };
    const texts = OUTPUT.map((name) => take(rest, [name], isString)).filter(isText);
    const parts = [...new Set(texts)].map(textPart);
    if (Object.keys(rest).length > 0) parts.push(textPart(asText(rest)));
    return parts;
}

function briefOf(input) {
    if (!isObject(input)) return word(input, MAX_BRIEF);
    const command = COMMAND.map((name) => input[name]).find(isCommand);
    const known = command === undefined ? BRIEF.map((name) => input[name]).find(isText) : commandOf(command);
    if (known !== undefined) return word(known, MAX_BRIEF);
    return Object.keys(input).length === 0 ? '' : word(JSON.stringify(input), MAX_BRIEF);
}

/** The name of a tool_use, and a line about it: {name, brief}. */
export function briefly({ name, title, input }) {
    const said = word(name);
    const words = word(title, MAX_BRIEF);
    // ACP tells the kind of a tool, and its title.
    if (words !== '' && (said === '' || said === 'other')) return { name: words, brief: briefOf(input) };
    return { name: said, brief: words === '' ? briefOf(input) : words };
}

/** `data` of a tool_use as {id, name, brief, isNested, parts}; isNested: it is a call within another one. */
export function callOf(data) {
    const { id, name, input, details, parentToolUseId } = data;
    const more = Array.isArray(details) ? contentParts(details) : [];
    return { id: word(id), ...briefly(data), isNested: isText(parentToolUseId), parts: bounded([...inputParts(input, word(name)), ...more]) };
}

/** The parts of a tool_result: {kind: 'text', text, more}, {kind: 'note', text}, {kind: 'diff', path, …} with the members of diffOf(). */
export function resultParts({ content, details }) {
    return bounded(joined([...contentParts(content), ...(Array.isArray(details) ? contentParts(details) : [])]));
}

/** The parts as one text. */
export function textOf(parts) {
    const lines = ({ path, lines }) => [path, ...lines.map(({ mark, text }) => `${mark}${text}`)].join('\n');
    return parts.map((part) => (part.kind === 'diff' ? lines(part) : part.text)).join('\n');
}

const STATES = { completed: 'done', in_progress: 'running' };
const MAX_STEPS = 100;

/** The entries of a plan as {steps: [{text, state, isUrgent}], hidden}; `state` is done, running or open. */
export function planOf(entries) {
    const all = Array.isArray(entries) ? entries : [];
    const steps = all.slice(0, MAX_STEPS).map((entry) => {
        const { content = entry, status, priority } = isObject(entry) ? entry : {};
        return { text: word(content, 500), state: Object.hasOwn(STATES, status) ? STATES[status] : 'open', isUrgent: priority === 'high' };
    });
    return { steps, hidden: all.length - steps.length };
}
