// The list of conversations: newest first, page by page, refreshed while the page is looked at. A search reads the pages
// that are not shown, too.
import { ago, matching, nameOf, statusOf } from './labels.mjs';
import { fragmentOf } from './store.mjs';
import { button, h } from './dom.mjs';

const REFRESH_MS = 10_000;
const MAX_SEARCHED_PAGES = 20;

/** The first `most` pages that `read(cursor)` gives: {conversations, next}; `next` is null behind the last one. */
export async function readPages(read, most) {
    const conversations = [];
    let next;
    for (let page = 0; page < most; ++page) {
        const answer = await read(next);
        conversations.push(...answer.conversations);
        next = answer.next ?? undefined;
        if (next === undefined) break;
    }
    return { conversations, next: next ?? null };
}

export class ConversationList {
    #api;
    #at;
    #pages = 1;
    #next = null;
    #items = [];
    #isLoaded = false;
    #current = null;
    #on;
    #isDeep = false; // a search has asked for more pages than are shown without it
    #timer = null;
    #run = 0;

    /** `at`: {list, empty, more, search}. `on`: {hasEdits(id), rename(conversation)}; edits are changes of files that were not saved. */
    constructor(api, at, on) {
        this.#api = api;
        this.#at = at;
        this.#on = on;
        this.#render();
        at.more.onclick = () => {
            this.#pages = this.#wanted + 1;
            this.refresh();
        };
        at.search.value = '';
        at.search.oninput = () => this.#search();
        this.#tick();
    }

    destroy() {
        ++this.#run;
        this.#at.search.oninput = null;
        clearTimeout(this.#timer);
        this.#at.list.replaceChildren();
    }

    select(id) {
        this.#current = id;
        this.#render();
    }

    /** Reads as many pages as are shown. */
    async refresh() {
        const run = ++this.#run;
        let read;
        try {
            read = await readPages((cursor) => this.#api.list(cursor), this.#wanted);
        } catch {
            if (run === this.#run) this.#isDeep = false;
            return; // the next tick tries again; an open conversation tells that the server is away
        }
        if (run !== this.#run) return;
        this.#items = read.conversations;
        this.#isLoaded = true;
        this.#next = read.next;
        this.#render();
    }

    get #wanted() {
        return this.#isDeep ? Math.max(this.#pages, MAX_SEARCHED_PAGES) : this.#pages;
    }

    #search() {
        const isDeep = this.#at.search.value !== '' && (this.#isDeep || this.#next !== null);
        if (isDeep !== this.#isDeep) {
            this.#isDeep = isDeep;
            if (isDeep) this.#isLoaded = false;
            this.refresh();
        }
        this.#render();
    }

    /** Shows newer knowledge of one conversation. */
    update(conversation) {
        const index = this.#items.findIndex((item) => item.id === conversation.id);
        if (index >= 0) this.#items[index] = conversation;
        else this.#items.unshift(conversation);
        this.#render();
    }

    remove(id) {
        this.#items = this.#items.filter((item) => item.id !== id);
        this.#render();
    }

    #tick() {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => {
            if (!document.hidden && !this.#isDeep) this.refresh();
            this.#tick();
        }, REFRESH_MS);
    }

    #render() {
        const { list, empty, more, search } = this.#at;
        const found = matching(this.#items, search.value);
        const focused = document.activeElement?.dataset?.id;
        const now = Date.now();
        const entries = found.map((conversation) => {
            const link = h('a');
            link.href = fragmentOf(conversation.id);
            link.dataset.id = conversation.id;
            if (conversation.id === this.#current) link.setAttribute('aria-current', 'page');
            const status = statusOf(conversation);
            const meta = h('span', 'meta');
            meta.append(h('span', `dot ${status.tone}`, status.text), h('span', '', ago(conversation.lastActiveAt, now)));
            link.append(h('span', 'name', nameOf(conversation)), meta);
            // In the open one the file itself is marked.
            if (conversation.id !== this.#current && this.#on.hasEdits(conversation.id)) link.append(h('span', 'dirty', '● not saved'));
            link.setAttribute('aria-keyshortcuts', 'F2');
            link.addEventListener('keydown', (event) => event.key === 'F2' && this.#on.rename(conversation));
            const rename = button('✎', () => this.#on.rename(conversation));
            rename.className = 'quiet rename';
            rename.title = 'Rename (F2)';
            rename.tabIndex = -1;
            rename.setAttribute('aria-label', `Rename ${nameOf(conversation)}`);
            const entry = h('li');
            entry.append(link, rename);
            return entry;
        });
        list.replaceChildren(...entries);
        if (focused !== undefined) for (const link of list.querySelectorAll('a')) if (link.dataset.id === focused) link.focus();
        empty.hidden = found.length > 0;
        empty.textContent = !this.#isLoaded ? 'Loading…' : this.#items.length === 0 ? 'No conversations yet.' : 'None of those that are listed.';
        more.hidden = this.#next === null;
        search.hidden = this.#items.length === 0 && search.value === '';
    }
}
