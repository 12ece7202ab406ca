// The tree of the workspace in the page: the pattern for trees of the ARIA Authoring Practices, with one stop for Tab.
import { harmless } from './ansi.mjs';
import { bytesText } from './usage.mjs';
import { h } from './dom.mjs';

const KINDS = { symlink: 'link', fifo: 'pipe', socket: 'socket', device: 'device' };

export class TreeView {
    #root;
    #tree;
    #on;
    #isDirty;
    #signal;

    /**
     * `on`: {toggle(path), open(path), select(path), remove(), rename()}; `select(null)`: nothing is. `isDirty(path)`: it has changes
     * that are not saved.
     */
    constructor(root, tree, on, isDirty, signal) {
        this.#root = root;
        this.#tree = tree;
        this.#on = on;
        this.#isDirty = isDirty;
        this.#signal = signal;
        root.addEventListener('click', (event) => this.#click(event), { signal });
        root.addEventListener('keydown', (event) => this.#key(event), { signal });
        signal.addEventListener('abort', () => root.replaceChildren());
    }

    render() {
        // The element shows another tree by then.
        if (this.#signal.aborted) return;
        const hadFocus = this.#root.contains(document.activeElement);
        const { scrollTop } = this.#root;
        const rows = this.#tree.rows();
        const first = this.#tree.selected ?? rows.find(({ path }) => path !== undefined)?.path;
        this.#root.replaceChildren(...rows.map((row) => this.#item(row, first)));
        this.#root.tabIndex = first === undefined ? 0 : -1;
        // A tree has items.
        if (first === undefined) this.#root.removeAttribute('role');
        else this.#root.setAttribute('role', 'tree');
        this.#root.scrollTop = scrollTop;
        if (hadFocus) this.focus();
    }

    focus() {
        (this.#root.querySelector('[tabindex="0"]') ?? this.#root).focus({ preventScroll: true });
    }

    /** The folder or file that an element of the tree stands for; null for none. */
    pathAt(element) {
        return element.closest?.('[role=treeitem]')?.dataset.path ?? null;
    }

    #item({ path, name, type, level, size, target, isOpen, note }, first) {
        if (path === undefined) {
            const item = h('li', `note-row level-${Math.min(level, 12)}`, note);
            item.setAttribute('role', 'none');
            return item;
        }
        const item = h('li', `row ${isOpen === undefined ? 'file' : isOpen ? 'folder open' : 'folder'} level-${Math.min(level, 12)}`);
        item.setAttribute('role', 'treeitem');
        item.setAttribute('aria-level', level);
        item.setAttribute('aria-selected', String(path === this.#tree.selected));
        if (isOpen !== undefined) item.setAttribute('aria-expanded', String(isOpen));
        item.dataset.path = path;
        item.tabIndex = path === first ? 0 : -1;
        item.append(h('span', 'name', harmless(name)));
        if (this.#isDirty(path)) item.append(h('span', 'dirty', ' ● not saved'));
        const facts = [];
        if (KINDS[type] !== undefined) facts.push(KINDS[type]);
        if (target !== undefined && target !== null) facts.push(`→ ${harmless(target)}`);
        if (type === 'file') facts.push(bytesText(size));
        if (facts.length > 0) item.append(h('span', 'facts-of-file', facts.join(' ')));
        return item;
    }

    #click(event) {
        const path = this.pathAt(event.target);
        this.#on.select(path);
        if (path === null) return;
        if (this.#tree.isFolder(path)) this.#on.toggle(path);
        else this.#on.open(path);
    }

    #key(event) {
        if (event.ctrlKey || event.altKey || event.metaKey) return;
        const { selected } = this.#tree;
        if ((event.key === 'Enter' || event.key === ' ') && selected !== null) {
            event.preventDefault();
            if (this.#tree.isFolder(selected)) this.#on.toggle(selected);
            else this.#on.open(selected);
        } else if (event.key === 'Delete' && selected !== null) this.#on.remove();
        else if (event.key === 'F2' && selected !== null) this.#on.rename();
        else if (event.key === 'Escape') this.#on.select(null);
        else {
            const step = this.#tree.key(event.key);
            if (step === null) return;
            event.preventDefault();
            if (step.select !== undefined) this.#on.select(step.select);
            else this.#on.toggle(step.open ?? step.close);
            this.focus();
            this.#root.querySelector('[tabindex="0"]')?.scrollIntoView({ block: 'nearest' });
        }
    }
}
