// The chat page: follows its conversation, shows every event once, and sends messages.
import { Atoll, AtollError } from '/client/index.js';

const element = (id) => document.getElementById(id);

/** Asks the backend. */
async function ask(path, body = {}) {
    const response = await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    // 401, 403 and 404 are final; else the client asks for its token again.
    if (!response.ok) throw new AtollError({ status: response.status, code: 'refused', detail: `${path}: ${response.status}` });
    return response.json();
}

function add(parent, name, className, text = '') {
    const added = document.createElement(name);
    added.className = className;
    // Text, never markup: it comes from an agent.
    added.textContent = text;
    parent.append(added);
    return added;
}

/** Also where the page has no https, unlike crypto.randomUUID(). */
function randomKey() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const turns = new Map();

function show({ type, turn, data }) {
    if (type === 'turn_start') {
        const section = add(element('turns'), 'section', 'turn');
        add(section, 'p', 'question', typeof data.content === 'string' ? data.content : data.content.map(({ text }) => text).join('\n'));
        turns.set(turn, { section, output: add(section, 'pre', 'output') });
    }
    const shown = turns.get(turn);
    if (type === 'text_delta') shown?.output.append(data.delta);
    else if (type === 'error') add(shown?.section ?? element('turns'), 'p', 'error', data.message);
    else if (type === 'done') shown?.section.setAttribute('data-done', '');
    shown?.section.scrollIntoView({ block: 'end' });
}

function tell(text) {
    element('status').textContent = text;
}

/** The log is another one: what is shown is void. */
function clear() {
    turns.clear();
    element('turns').replaceChildren();
}

const { conversationId, atollUrl } = await ask('/conversation');
const atoll = new Atoll({ baseUrl: atollUrl, getToken: ({ conversationId: id }) => ask('/token', { conversationId: id }) });
const conversation = atoll.conversation(conversationId);

/** The message whose sending failed last: with its key, sent again it starts no second turn. */
let failed = null;

element('form').addEventListener('submit', (event) => {
    event.preventDefault();
    const content = element('message').value;
    if (content === '') return;
    element('message').value = '';
    const idempotencyKey = failed?.content === content ? failed.idempotencyKey : randomKey();
    failed = null;
    conversation.send(content, { idempotencyKey }).catch((error) => {
        failed = { content, idempotencyKey };
        element('message').value ||= content;
        tell(error.detail || error.message);
    });
});
element('stop').addEventListener('click', () => conversation.interrupt().catch((error) => tell(error.detail || error.message)));

try {
    const onStatus = (status) => tell(status === 'live' ? 'live' : 'connecting');
    for await (const event of conversation.follow({ onStatus, onReset: clear })) show(event);
    tell('This conversation is over.');
} catch (error) {
    tell(error.message);
}
