// The page: signing in, the list, the open conversation, dialogs. The fragment of the address names the open conversation.
import { aboutAgent, agentChoices, firstAgent, missingAgents } from './agents.mjs';
import { harmless } from './ansi.mjs';
import { Api, ApiError } from './api.mjs';
import { ask } from './ask.mjs';
import { Chat } from './chat.mjs';
import { h, options } from './dom.mjs';
import { Drafts } from './drafts.mjs';
import { enforcementOf, nameOf, serverLineOf } from './labels.mjs';
import { LIMITS, readForm } from './limits.mjs';
import { ConversationList } from './list.mjs';
import { Menu, renamed } from './menu.mjs';
import { networkOf } from './network.mjs';
import { NetworkFields } from './network_fields.mjs';
import { NetworkPanel } from './network_panel.mjs';
import { Outbox } from './outbox.mjs';
import { PreviewPanel } from './preview_panel.mjs';
import { QuestionsPanel } from './questions_panel.mjs';
import { forget, fragmentOf, loadAgent, loadKey, readFragment, saveAgent, saveKey } from './store.mjs';
import { Workbench } from './workbench.mjs';

const NOTICE_MS = 6000;

const byId = (id) => document.getElementById(id);
const at = {};
for (const [name, id] of Object.entries({
    app: 'app', signIn: 'sign-in', keyForm: 'key-form', key: 'key', keyError: 'key-error', list: 'list', empty: 'list-empty',
    more: 'more', server: 'server', welcome: 'welcome', chat: 'chat', title: 'title', status: 'status', connection: 'connection',
    freeze: 'freeze', pause: 'pause', usage: 'usage', facts: 'facts', factsSummary: 'facts-summary', factsList: 'facts-list', log: 'log', turns: 'turns',
    folded: 'folded', waiting: 'waiting', starters: 'starters', loading: 'loading', opening: 'opening', latest: 'latest', composer: 'composer', message: 'message', send: 'send', stop: 'stop', keys: 'keys',
    sendError: 'send-error', said: 'said', notice: 'notice', createDialog: 'create-dialog', createForm: 'create-form', createName: 'create-name',
    createAgent: 'create-agent', createAbout: 'create-about', createMissing: 'create-missing', createMissingSummary: 'create-missing-summary', createMissingList: 'create-missing-list', createNetwork: 'create-network', createEgress: 'create-egress', createHint: 'create-hint', createError: 'create-error',
    deleteDialog: 'delete-dialog', deleteForm: 'delete-form', deleteError: 'delete-error',
}))
    at[name] = byId(id);
// The elements of the other views are named by their ids, in camel case.
for (const id of [
    'tabs', 'terminal-tab', 'files-panel', 'tree', 'file-new', 'folder-new', 'file-upload', 'folder-upload', 'file-input', 'folder-input',
    'file-download', 'file-rename', 'file-delete', 'files-problem', 'files-said', 'files-hidden', 'editor', 'editor-empty', 'editor-open', 'editor-name',
    'editor-facts', 'editor-save', 'editor-revert', 'editor-close', 'editor-conflict', 'editor-theirs', 'editor-mine', 'editor-note',
    'editor-text', 'editor-dump', 'editor-picture', 'terminal-panel', 'terminal-state', 'terminal-new', 'terminal-end', 'terminal-note',
    'terminal-screen', 'ask-dialog', 'ask-form', 'ask-title', 'ask-text', 'ask-label', 'ask-name', 'ask-problem', 'ask-submit',
    'network', 'network-dialog', 'network-form', 'network-mode', 'network-egress', 'network-error', 'denials', 'denials-list', 'denials-problem', 'questions', 'questions-list', 'questions-problem',
    'preview', 'preview-offer', 'preview-port', 'preview-reload', 'preview-follow', 'preview-open', 'preview-close', 'preview-frame', 'veil', 'veil-text', 'veil-resume', 'veil-close', 'preview-tab', 'search', 'create-limits', 'create-fields',
    'actions', 'own-actions', 'menu', 'menu-button', 'rename', 'copy-curl', 'copy-id', 'save-transcript',
])
    at[id.replace(/-(.)/g, (_, letter) => letter.toUpperCase())] = byId(id);
at.keys.dataset.text = at.keys.textContent;
const createFields = new NetworkFields(at.createNetwork, at.createEgress);
const networkFields = new NetworkFields(at.networkMode, at.networkEgress);

const limitFields = new Map(
    [...LIMITS, ['idleMinutes', 'Pause after, minutes']].map(([name, label]) => {
        const field = h('input');
        Object.assign(field, { type: 'text', inputMode: 'numeric', autocomplete: 'off', placeholder: 'default' });
        const box = h('label', '', label);
        box.append(field);
        at.createFields.append(box);
        return [name, field];
    }),
);

let api = null;
let system = null;
let agents = [];
let list = null;
let drafts = new Drafts();
let chat = null;
let workbench = null;
let preview = null;
let network = null;
let questions = null;
let menu = null;
let opening = 0;
let signing = 0;
let creating = 0;
let noticeTimer = null;

function say(text) {
    at.said.textContent = '';
    at.said.textContent = text;
}

// For everyone to see, for a while.
function tell(text) {
    at.notice.hidden = false;
    at.notice.textContent = text;
    clearTimeout(noticeTimer);
    noticeTimer = setTimeout(() => (at.notice.hidden = true), NOTICE_MS);
}

function show(problem, error) {
    problem.hidden = error === null;
    problem.textContent = error === null ? '' : error.message;
}

// --- the key

function askForKey(error = null) {
    ++signing;
    at.createDialog.close();
    close();
    list?.destroy();
    list = null;
    api = null;
    at.app.hidden = true;
    at.loading.hidden = true;
    at.signIn.hidden = false;
    document.title = 'Atoll';
    show(at.keyError, error);
    at.key.value = '';
    at.key.focus();
}

async function signIn(key) {
    const attempt = ++signing;
    // Kept before it is known to be good: a reload in between must not lose it.
    saveKey(key);
    const trying = new Api(key, (problem) => {
        if (api !== trying) return;
        forget();
        askForKey(new ApiError(401, problem.code, 'The server no longer takes this key.'));
    });
    let answers;
    try {
        answers = await Promise.all([trying.system(), trying.agents()]);
    } catch (error) {
        if (attempt !== signing) return;
        if (error.status === 401) {
            forget();
            return askForKey(new ApiError(401, error.code, 'The server does not take this key.'));
        }
        return askForKey(error);
    }
    // Another key was given meanwhile, or people signed out.
    if (attempt !== signing) return;
    close();
    list?.destroy();
    [system, { agents }] = answers;
    api = trying;
    at.signIn.hidden = true;
    at.loading.hidden = true;
    at.app.hidden = false;
    list = new ConversationList(api, { list: at.list, empty: at.empty, more: at.more, search: at.search }, {
        hasEdits: (id) => drafts.hasEdits(id),
        rename,
    });
    list.refresh();
    const { text, detail } = serverLineOf(system);
    at.server.textContent = text;
    at.server.title = detail;
    route();
}

/** Renames one of the list, also one that is not open. */
async function rename(conversation) {
    const its = list;
    try {
        const changed = await renamed(api, conversation, (question) => ask(at, question));
        if (changed === null || list !== its) return;
        if (chat?.id === changed.id) chat.update(changed);
        else list.update(changed);
    } catch (error) {
        tell(error.message);
    }
}

at.keyForm.addEventListener('submit', (event) => {
    event.preventDefault();
    const key = at.key.value.trim();
    if (key !== '') signIn(key);
});

byId('sign-out').addEventListener('click', async () => {
    const lost = [];
    if (drafts.hasAnyEdits) lost.push('Files were changed here and not saved. The changes are lost.');
    if (drafts.hasAnyUnsent) lost.push('Messages wait to be sent. They are lost.');
    if (lost.length > 0 && (await ask(at, { title: 'Sign out?', text: lost.join(' '), action: 'Sign out' })) === null) return;
    forget();
    drafts.stop();
    drafts = new Drafts();
    history.replaceState(null, '', location.pathname);
    askForKey();
});

// --- the open conversation

function close() {
    ++opening;
    // Both dialogs ask about this conversation, which Back of the browser can leave while they are open.
    at.deleteDialog.close();
    at.askDialog.close();
    workbench?.destroy();
    workbench = null;
    preview?.destroy();
    preview = null;
    network?.destroy();
    network = null;
    questions?.destroy();
    questions = null;
    menu?.destroy();
    menu = null;
    at.menu.hidePopover();
    chat?.destroy();
    chat = null;
    at.app.classList.remove('open');
    at.welcome.hidden = false;
    at.opening.hidden = true;
    document.title = 'Atoll';
    list?.select(null);
}

async function open(id) {
    close();
    const attempt = opening;
    at.welcome.hidden = true;
    at.opening.hidden = false;
    let conversation;
    try {
        conversation = await api.get(id);
    } catch (error) {
        if (attempt !== opening || api === null) return;
        close();
        history.replaceState(null, '', location.pathname);
        if (error.status === 404) return lose(id, 'There is no such conversation.');
        return tell(error.message);
    }
    if (attempt !== opening) return;
    at.opening.hidden = true;
    at.app.classList.add('open');
    list.select(id);
    preview = new PreviewPanel(api, conversation, at, {
        tell,
        resume: () => chat?.resume(),
        closed: () => workbench?.leave('preview'),
    });
    network = new NetworkPanel(api, conversation, at, {
        show: (shown) => networkFields.show(shown, system),
        fields: () => networkFields,
        changed: (changed) => chat?.update(changed),
        tell,
    });
    questions = new QuestionsPanel(api, conversation, at, {
        changed: (changed) => chat?.update(changed),
        tell,
        say,
        reveal: (seq) => {
            workbench?.show('chat');
            chat?.reveal(seq);
        },
        // On a touch screen the field would call up the keyboard. Beside the files and the terminal neither is shown.
        leave: () => {
            const place = matchMedia('(hover: hover)').matches ? at.message : at.log;
            (place.offsetParent === null ? at.tabs.querySelector('[aria-selected=true]') : place).focus({ preventScroll: true });
        },
    });
    menu = new Menu(api, conversation, at, {
        tell,
        ask: (question) => ask(at, question),
        changed: (changed) => chat?.id === changed.id && chat.update(changed),
        lastAsked: () => chat?.lastAsked ?? null,
    });
    const outbox = drafts.outbox(id, () => makeOutbox(conversation));
    chat = new Chat(api, conversation, drafts, outbox, at, {
        notEnforced: () => system?.notEnforced,
        raise: (limit) => menu?.raise(limit),
        say,
        event: (event) => {
            preview?.event(event);
            network?.event(event);
            questions?.event(event);
        },
        reset: () => {
            preview?.reset();
            network?.reset();
            questions?.reset();
        },
        changed: (changed) => {
            // The workbench and the preview may be those of another conversation by now.
            if (attempt !== opening) return;
            list?.update(changed);
            workbench?.update(changed);
            preview?.update(changed);
            network?.update(changed);
            menu?.update(changed);
        },
        gone: (gone, state) => lose(gone, harmless(state.detail) || 'The conversation is gone.'),
    });
    const hasTerminal = system.console?.terminal === true;
    workbench = new Workbench(api, conversation, drafts.edits(id), at, { say, tell, ask: (question) => ask(at, question) }, hasTerminal);
    // On a touch screen it would call up the keyboard.
    if (matchMedia('(hover: hover)').matches) at.message.focus({ preventScroll: true });
}

/** The messages of a conversation, which go on while another one is open. */
function makeOutbox(conversation) {
    const { id } = conversation;
    const itsDrafts = drafts;
    const refused = (text, error) => {
        itsDrafts.giveBack(id, text);
        if (chat?.id === id) chat.showUnsent(error);
        else tell(`Not sent to “${nameOf(conversation)}”, where the text is kept: ${error.message}`);
    };
    const timers = { set: (act, ms) => setTimeout(act, ms), clear: (handle) => clearTimeout(handle) };
    return new Outbox({ send: (text, key) => api.send(id, text, key), refused, timers });
}

/** The conversation is no more. */
function lose(id, why) {
    list?.remove(id);
    drafts.forget(id);
    if (chat?.id === id) {
        history.replaceState(null, '', location.pathname);
        close();
    }
    tell(why);
}

function route() {
    const { key, id } = readFragment(location.hash);
    if (key !== null) {
        history.replaceState(null, '', location.pathname + fragmentOf(id));
        signIn(key);
    } else if (api === null) return;
    else if (id === null) close();
    else if (chat?.id !== id) open(id);
}

window.addEventListener('hashchange', route);
window.addEventListener('beforeunload', (event) => {
    if (drafts.hasAnyEdits || drafts.hasAnyUnsent) event.preventDefault();
});

// The fragment names the open conversation: the link must not become one.
byId('skip').addEventListener('click', (event) => {
    event.preventDefault();
    workbench?.show('chat');
    at.message.focus();
});

// --- the menu of the open conversation

const narrow = matchMedia('(max-width: 46rem)');
// On a phone all actions are in the menu.
const placeActions = () => {
    if (narrow.matches) at.menu.append(at.ownActions);
    else at.actions.prepend(at.ownActions);
};
narrow.addEventListener('change', placeActions);
placeActions();
at.menu.addEventListener('click', (event) => event.target.closest('button') !== null && at.menu.hidePopover());

// --- dialogs

for (const dialog of [at.createDialog, at.deleteDialog, at.askDialog, at.networkDialog])
    dialog.querySelector('button[value=cancel]').addEventListener('click', () => dialog.close());

function showCreate() {
    ++creating;
    at.createAgent.replaceChildren(...options(agentChoices(agents), firstAgent(agents, loadAgent(), system.defaultAgent)));
    showAbout();
    const missing = missingAgents(agents);
    at.createMissing.hidden = missing.length === 0;
    at.createMissing.open = false;
    at.createMissingSummary.textContent = missing.length === 1 ? 'One agent is not installed' : `${missing.length} agents are not installed`;
    at.createMissingList.replaceChildren(...missing.map(missingRow));
    createFields.showDefault(system);
    const { summary, tone } = enforcementOf(system.enforcement, system.notEnforced);
    at.createHint.replaceChildren(h('span', `badge ${tone}`, summary));
    show(at.createError, null);
    at.createName.value = '';
    for (const field of limitFields.values()) field.value = '';
    at.createLimits.open = false;
    at.createDialog.showModal();
}

function showAbout() {
    at.createAbout.textContent = aboutAgent(agents, at.createAgent.value);
}
at.createAgent.addEventListener('change', showAbout);

function missingRow({ name, why, command }) {
    const row = h('li');
    row.append(h('b', '', name), why === '' ? '' : ` (${why})`);
    if (command !== '') row.append(': ', h('code', '', command));
    return row;
}

for (const id of ['new', 'new-here']) byId(id).addEventListener('click', showCreate);

at.createForm.addEventListener('submit', async (event) => {
    event.preventDefault();
    const button = at.createForm.querySelector('button[type=submit]');
    if (button.disabled) return;
    button.disabled = true;
    show(at.createError, null);
    const [run, its] = [creating, api];
    // The dialog may be closed by now, or be open for another one.
    const isAsked = () => run === creating && at.createDialog.open;
    let typed;
    try {
        typed = readForm(Object.fromEntries(LIMITS.map(([name]) => [name, limitFields.get(name).value])), limitFields.get('idleMinutes').value);
    } catch (error) {
        at.createLimits.open = true;
        button.disabled = false;
        return show(at.createError, error);
    }
    const form = { agent: at.createAgent.value, ...typed };
    if (createFields.mode !== '') form.network = networkOf(createFields.mode, createFields.rules, createFields.more);
    saveAgent(form.agent === system.defaultAgent ? null : form.agent);
    const title = at.createName.value.trim();
    if (title !== '') form.title = title;
    try {
        const made = await its.create(form);
        if (api === its) list.update(made);
        if (isAsked()) {
            at.createDialog.close();
            location.hash = fragmentOf(made.id);
        }
    } catch (error) {
        if (isAsked()) show(at.createError, error);
        else if (api === its) tell(error.message);
    }
    button.disabled = false;
});

byId('delete').addEventListener('click', () => {
    show(at.deleteError, null);
    byId('delete-title').textContent = `Delete “${at.title.textContent}”?`;
    at.deleteDialog.showModal();
});

at.deleteForm.addEventListener('submit', async (event) => {
    event.preventDefault();
    const button = at.deleteForm.querySelector('button[type=submit]');
    const going = chat;
    if (button.disabled || going === null) return;
    button.disabled = true;
    try {
        await going.remove();
        lose(going.id, 'The conversation was deleted.');
    } catch (error) {
        // The dialog may be open for another conversation by now.
        if (chat === going && at.deleteDialog.open) show(at.deleteError, error);
        else tell(`Not deleted: ${error.message}`);
    }
    button.disabled = false;
});

// --- begin

// A key in the address is for this page only: it must stay neither in the address bar nor in the history.
const { key: givenKey, id: givenId } = readFragment(location.hash);
if (givenKey !== null) history.replaceState(null, '', location.pathname + fragmentOf(givenId));
const key = givenKey ?? loadKey();
if (key === null) askForKey();
else signIn(key);
