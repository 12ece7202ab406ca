// The views of an open conversation: its chat, the files of its sandbox, a terminal in it, and its preview where that has
// no place beside the chat. Made when they are first
// looked at. The pattern for tabs of the ARIA Authoring Practices.
import { Files } from './files.mjs';
import { FilesPanel } from './files_panel.mjs';
import { Processes } from './processes.mjs';
import { TerminalPanel } from './terminal.mjs';

export class Workbench {
    #api;
    #at;
    #on;
    #conversation;
    #edits;
    #abort = new AbortController();
    #panels = {};
    #shown = 'chat';

    /** `edits`: those of the editor. `on`: {say(text), tell(text), ask(question)}. `hasTerminal`: the server was built with one. */
    constructor(api, conversation, edits, at, on, hasTerminal) {
        this.#api = api;
        this.#conversation = conversation;
        this.#edits = edits;
        this.#at = at;
        this.#on = on;
        const { signal } = this.#abort;
        at.tabs.addEventListener('click', (event) => this.#pick(event.target.closest('[role=tab]')), { signal });
        at.tabs.addEventListener('keydown', (event) => this.#key(event), { signal });
        at.terminalTab.hidden = !hasTerminal;
        this.#mark();
    }

    destroy() {
        this.#abort.abort();
        this.#shown = 'chat';
        this.#mark();
    }

    /** The conversation as it is now. */
    update(conversation) {
        this.#conversation = conversation;
    }

    show(name) {
        this.#shown = name;
        this.#mark();
        if (name === 'files' || name === 'terminal') this.#panel(name).show();
    }

    /** The view is gone: shows the chat, if it was this one that was seen. */
    leave(name) {
        if (this.#shown === name) this.show('chat');
    }

    #tabs() {
        return [...this.#at.tabs.querySelectorAll('[role=tab]')].filter((tab) => tab.offsetParent !== null);
    }

    #pick(tab) {
        if (tab !== null) this.show(tab.dataset.tab);
    }

    #key(event) {
        const tabs = this.#tabs();
        const at = tabs.indexOf(event.target);
        const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
        if (at < 0 || to === undefined) return;
        event.preventDefault();
        const tab = tabs[(to + tabs.length) % tabs.length];
        // The terminal would take the focus, and a key more would be one for the shell.
        if (tab.dataset.tab === 'terminal') tab.focus();
        else {
            this.show(tab.dataset.tab);
            tab.focus();
        }
    }

    #mark() {
        const { chat, filesPanel, terminalPanel } = this.#at;
        chat.dataset.tab = this.#shown;
        filesPanel.hidden = this.#shown !== 'files';
        terminalPanel.hidden = this.#shown !== 'terminal';
        for (const tab of this.#at.tabs.querySelectorAll('[role=tab]')) {
            const isShown = tab.dataset.tab === this.#shown;
            tab.setAttribute('aria-selected', String(isShown));
            tab.tabIndex = isShown ? 0 : -1;
        }
    }

    #panel(name) {
        const { sandboxId } = this.#conversation;
        const { signal } = this.#abort;
        const { say, tell, ask } = this.#on;
        const isRunning = () => this.#conversation.status === 'active';
        if (name === 'files') this.#panels.files ??= new FilesPanel(this.#at, new Files(this.#api, sandboxId), this.#edits, { signal, say, ask, isRunning });
        else this.#panels.terminal ??= new TerminalPanel(this.#at, new Processes(this.#api, sandboxId), { signal, tell });
        return this.#panels[name];
    }
}
