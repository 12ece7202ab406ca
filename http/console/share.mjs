// A conversation as text to take along: a command that sends to it, and its transcript. Pure.
import { harmless } from './ansi.mjs';
import { nameOf } from './labels.mjs';
import { textOf } from './tools.mjs';
import { Transcript } from './transcript.mjs';

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A command for a shell that sends `content` and follows the answer. The key stays in a variable. */
export function curlOf(origin, { id }, content) {
    return [
        `curl -N ${quoted(`${origin}/v1/conversations/${id}/messages`)}`,
        '-H "Authorization: Bearer $ATOLL_API_KEY"',
        "-H 'Accept: text/event-stream'",
        "-H 'Content-Type: application/json'",
        `-d ${quoted(JSON.stringify({ content }))}`,
    ].join(' \\\n  ');
}

// A block that its content cannot end.
function fenced(text) {
    const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
    const fence = '`'.repeat(longest + 1);
    return `${fence}\n${text.replace(/\n?$/, '\n')}${fence}`;
}

// Operations that the text leaves out: they do not split what an agent says.
const UNTOLD = new Set(['turn', 'thought', 'plan', 'message', 'changed']);

/** The events of a log as Markdown. */
export function transcriptOf(conversation, events) {
    const transcript = new Transcript();
    const parts = [`# ${nameOf(conversation)}`];
    let text = '';
    const flush = () => {
        if (text !== '') parts.push(fenced(harmless(text)));
        text = '';
    };
    for (const event of events) {
        for (const operation of transcript.apply(event)) {
            if (operation.op === 'text' && operation.kind !== 'thinking') {
                text += operation.text;
                continue;
            }
            if (UNTOLD.has(operation.op)) continue;
            flush();
            if (operation.op === 'question') parts.push(`## ${operation.by === '' ? 'Asked' : harmless(operation.by)}, ${event.at}`, fenced(harmless(operation.text)));
            else if (operation.op === 'note' || operation.op === 'error') parts.push(`*${harmless(operation.text)}*`);
            else if (operation.op === 'incident') parts.push(`**${operation.title}**`, harmless(operation.text));
            else if (operation.op === 'tool') parts.push(`Tool ${harmless(operation.name)}:`, fenced(harmless(textOf(operation.parts))));
            else if (operation.op === 'result') parts.push(operation.isError ? 'failed:' : 'done:', fenced(harmless(textOf(operation.parts))));
            else if (operation.op === 'decided') parts.push(`*${harmless(operation.text)}*`);
            else if (operation.op === 'complete' && operation.exitCode !== null) parts.push(`exit ${operation.exitCode}`);
        }
    }
    flush();
    return `${parts.join('\n\n')}\n`;
}
