// The list of conversations: newest first, page by page, refreshed while the page is looked at.
import { ago, matching, nameOf, statusOf } from './labels.mjs';
import { fragmentOf } from './store.mjs';
import { h } from './dom.mjs';

const REFRESH_MS = 10_000;
const MIN_SEARCHED = 6; // fewer are seen at a glance

export class ConversationList {
    #api;
    #at;
    #pages = 1;
    #next = null;
    #items = [];
    #isLoaded = false;
    #current = null;
    #hasEdits;
    #timer = null;
    #run = 0;

    /** `at`: {list, empty, more, search}. `hasEdits(id)`: files were changed there and not saved. */
    constructor(api, at, hasEdits) {
        this.#api = api;
        this.#at = at;
        this.#hasEdits = hasEdits;
        this.#render();
        at.more.onclick = () => {
            ++this.#pages;
            this.refresh();
        };
        at.search.value = '';
        at.search.oninput = () => this.#render();
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
        const items = [];
        let next;
        for (let page = 0; page < this.#pages; ++page) {
            let answer;
            try {
                answer = await this.#api.list(next);
            } catch {
                return; // the next tick tries again; an open conversation tells that the server is away
            }
            if (run !== this.#run) return;
            items.push(...answer.conversations);
            next = answer.next ?? undefined;
            if (next === undefined) break;
        }
        this.#items = items;
        this.#isLoaded = true;
        this.#next = next ?? null;
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
            if (!document.hidden) this.refresh();
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
            if (conversation.id !== this.#current && this.#hasEdits(conversation.id)) link.append(h('span', 'dirty', '● not saved'));
            const entry = h('li');
            entry.append(link);
            return entry;
        });
        list.replaceChildren(...entries);
        if (focused !== undefined) for (const link of list.querySelectorAll('a')) if (link.dataset.id === focused) link.focus();
        empty.hidden = found.length > 0;
        empty.textContent = !this.#isLoaded ? 'Loading…' : this.#items.length === 0 ? 'No conversations yet.' : 'None of those that are listed.';
        more.hidden = this.#next === null;
        search.hidden = this.#items.length < MIN_SEARCHED && search.value === '';
    }
}
