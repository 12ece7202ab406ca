// The workbench: a chat, the preview of what runs, the files and a terminal of one conversation.
import { Atoll } from '/client/index.js';
import { Terminal } from '/xterm/lib/xterm.mjs';

const element = (id) => document.getElementById(id);
const tell = (text) => (element('status').textContent = text);

// Step 1: a session, and tokens that the backend renews.
async function ask(path, body = {}) {
    const response = await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return response.json();
}
const session = await ask('/session');
const atoll = new Atoll({ baseUrl: session.atollUrl, getToken: ({ scope }) => ask('/token', { scope }) });
const conversation = atoll.conversation(session.conversationId);
const sandbox = atoll.sandbox(session.sandboxId);

// Step 2: the chat. Every event comes once, over connections that break and tokens that expire.
const turns = new Map();
function add(parent, name, className, text) {
    const added = document.createElement(name);
    added.className = className;
    added.textContent = text; // never as markup: it comes from an agent
    parent.append(added);
    return added;
}
function show({ type, turn, data }) {
    if (type === 'turn_start') {
        const section = add(element('turns'), 'section', 'turn', '');
        add(section, 'p', 'question', typeof data.content === 'string' ? data.content : data.content.map(({ text }) => text).join('\n'));
        turns.set(turn, add(section, 'pre', 'output', ''));
    }
    const output = turns.get(turn);
    if (type === 'text_delta') output?.append(data.delta);
    else if (type === 'error') add(output?.parentElement ?? element('turns'), 'p', 'error', data.message);
    else if (type === 'done') output?.parentElement.setAttribute('data-done', '');
    output?.scrollIntoView({ block: 'end' });
    showPort(type, data);
}
async function chat() {
    const onReset = () => element('turns').replaceChildren();
    for await (const event of conversation.follow({ onStatus: (status) => tell(status === 'live' ? 'live' : 'connecting'), onReset })) show(event);
}
element('form').addEventListener('submit', (event) => {
    event.preventDefault();
    const content = element('message').value;
    element('message').value = '';
    conversation.send(content).catch((error) => {
        element('message').value ||= content;
        tell(error.message);
    });
});
element('stop').addEventListener('click', () => conversation.interrupt().catch((error) => tell(error.message)));

// Step 3: the preview of the port that opened last.
function showPort(type, { url }) {
    if (type === 'port_opened' && url !== null) element('preview').src = url;
}

// Step 4: the files, as they change, and a terminal.
async function list() {
    const entries = [];
    for await (const entry of sandbox.files.list('', { depth: 4 })) entries.push(entry);
    element('files').replaceChildren();
    for (const entry of entries.filter(({ type }) => type === 'file')) {
        const button = add(add(element('files'), 'li', '', ''), 'button', 'file', entry.path);
        button.addEventListener('click', async () => (element('content').textContent = await sandbox.files.readText(entry, { range: { end: 65536 } })));
    }
}
async function files() {
    // `started` comes first, so the first list misses nothing.
    for await (const event of sandbox.files.watch()) if (event.type !== 'paused') await list();
}
async function terminal() {
    const screen = new Terminal({ rows: 12 });
    screen.open(element('terminal'));
    const shell = await sandbox.terminal({ cols: screen.cols, rows: screen.rows });
    shell.onData((bytes) => screen.write(bytes));
    shell.onExit(() => screen.write('\r\nThe shell has ended.\r\n'));
    screen.onData((text) => shell.write(text));
}
for (const part of [chat, files, terminal]) part().catch((error) => tell(error.message));
