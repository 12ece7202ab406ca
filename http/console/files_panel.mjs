// The files of the open conversation's sandbox: the tree, what people do with it, and the way of files in and out.
import { harmless } from './ansi.mjs';
import { Editor } from './editor.mjs';
import { hrefOf, join, nameProblem, parentOf, shownName, shownPath } from './paths.mjs';
import { Tree } from './tree.mjs';
import { TreeView } from './tree_view.mjs';
import { itemsOfDrop, itemsOfInput, upload } from './upload.mjs';
import { Watch } from './watch.mjs';
import { h } from './dom.mjs';

const MAX_PROBLEMS = 5; // that are told of one upload
const timers = { set: (act, ms) => setTimeout(act, ms), clear: (handle) => clearTimeout(handle) };

export class FilesPanel {
    #at;
    #files;
    #ask;
    #say;
    #signal;
    #tree = new Tree();
    #view;
    #editor;
    #watch = null;
    #isRunning;
    #isUploading = false;
    #showsAll = false;
    #hidden = 0; // entries that the listing of the workspace left out

    /**
     * `at`: elements by name. `files`: Files. `edits`: those of the editor. `ask({title, text, name, action})`: a promise of a name, of true without one, or of
     * null. `isRunning()`: whether looking at files starts nothing.
     */
    constructor(at, files, edits, { signal, say, ask, isRunning }) {
        this.#at = at;
        this.#files = files;
        this.#ask = ask;
        this.#say = say;
        this.#signal = signal;
        this.#isRunning = isRunning;
        const changed = () => this.#view?.render();
        this.#editor = new Editor(files, edits, at, { changed, closed: () => this.#view.focus(), say }, signal);
        const on = {
            toggle: (path) => this.#toggle(path),
            open: (path) => this.#open(path),
            select: (path) => this.#select(path),
            remove: () => this.#remove(),
            rename: () => this.#rename(),
        };
        this.#view = new TreeView(at.tree, this.#tree, on, (path) => this.#editor.isDirty(path), signal);
        this.#listen();
        at.filesSaid.textContent = '';
        this.#tellProblem('');
        this.#offerHidden();
        this.#buttons();
        this.#comeBack([...edits.keys()]);
    }

    // Shows the edits that were not saved when the conversation was left, even if their files are gone.
    #comeBack(paths) {
        for (const path of paths) this.#tree.reveal(path);
        if (paths.length > 0) this.#editor.open(paths.at(-1));
    }

    /** The panel can be seen now. */
    show() {
        if (this.#watch === null) {
            this.#follow();
            this.#signal.addEventListener('abort', () => this.#watch.stop());
        }
        this.#refresh(null);
    }

    #follow() {
        const all = this.#showsAll;
        this.#watch?.stop();
        this.#watch = new Watch({
            open: (signal) => this.#files.watch(signal, all),
            changed: (folders) => this.#refresh(folders),
            mayPoll: () => !document.hidden && !this.#at.filesPanel.hidden && this.#isRunning(),
            timers,
        });
        this.#watch.start();
    }

    // Shells and package managers keep these at the top of the workspace; the server leaves them out of its lists.
    #toggleHidden() {
        this.#showsAll = !this.#showsAll;
        this.#offerHidden();
        this.#follow();
        this.#refresh(null);
    }

    #offerHidden() {
        const { filesHidden } = this.#at;
        filesHidden.hidden = !this.#showsAll && this.#hidden === 0;
        filesHidden.textContent = this.#showsAll ? 'Hide hidden files' : `${this.#hidden} hidden`;
        filesHidden.setAttribute('aria-pressed', String(this.#showsAll));
    }

    #listen() {
        const on = (element, type, act) => element.addEventListener(type, act, { signal: this.#signal });
        const { fileNew, folderNew, fileUpload, folderUpload, fileInput, folderInput, fileDownload, fileRename, fileDelete, filesPanel, filesHidden } = this.#at;
        on(fileNew, 'click', () => this.#make('file'));
        on(folderNew, 'click', () => this.#make('folder'));
        on(fileUpload, 'click', () => fileInput.click());
        on(folderUpload, 'click', () => folderInput.click());
        for (const input of [fileInput, folderInput])
            on(input, 'change', () => {
                const items = itemsOfInput(input.files);
                input.value = '';
                this.#upload(this.#tree.targetFolder(), items);
            });
        on(fileDownload, 'click', () => this.#download());
        on(filesHidden, 'click', () => this.#toggleHidden());
        on(fileRename, 'click', () => this.#rename());
        on(fileDelete, 'click', () => this.#remove());
        // Anywhere else in the window the browser would open what is dropped.
        on(window, 'dragover', (event) => this.#dragOver(event));
        on(window, 'drop', (event) => event.preventDefault());
        on(filesPanel, 'dragleave', (event) => {
            if (!filesPanel.contains(event.relatedTarget)) this.#mark(null);
        });
        on(filesPanel, 'drop', (event) => this.#drop(event));
    }

    // --- reading

    async #refresh(folders) {
        const seen = this.#tree.openFolders();
        const wanted = folders === null ? seen : seen.filter((path) => folders.includes(path));
        await Promise.all(wanted.map((path) => this.#read(path)));
        const { path } = this.#editor;
        if (path !== null && (folders === null || folders.includes(parentOf(path)))) this.#editor.look();
    }

    async #read(path) {
        const all = this.#showsAll;
        try {
            const { entries, isCut, hidden } = await this.#files.list(path, { all, signal: this.#signal });
            // Another listing is on its way.
            if (all !== this.#showsAll) return;
            this.#tree.listed(path, entries, isCut);
            if (path === '' && !all) this.#hidden = hidden;
        } catch (error) {
            if (this.#signal.aborted) return;
            this.#tree.failed(path, error.message);
        }
        if (this.#signal.aborted) return;
        this.#offerHidden();
        this.#view.render();
        this.#buttons();
    }

    async #toggle(path) {
        if (this.#tree.isOpen(path)) this.#tree.close(path);
        else this.#tree.open(path);
        this.#view.render();
        if (this.#tree.isOpen(path)) await this.#read(path);
    }

    #select(path) {
        this.#tree.select(path);
        this.#view.render();
        this.#buttons();
    }

    #open(path) {
        const { type } = this.#tree.find(path) ?? {};
        if (type === 'file' || type === 'symlink' || type === undefined) return this.#editor.open(path);
        this.#tellProblem(`“${harmless(shownName(path))}” is a ${type} and has no content to show.`);
    }

    // --- changing

    async #attempt(act) {
        this.#tellProblem('');
        try {
            await act();
        } catch (error) {
            if (!this.#signal.aborted) this.#tellProblem(error.message);
        }
    }

    async #make(kind) {
        const folder = this.#tree.targetFolder();
        const where = folder === '' ? 'the workspace' : `“${harmless(shownPath(folder))}”`;
        const name = await this.#ask({ title: `New ${kind}`, text: `In ${where}.`, name: '', action: 'Create', check: nameProblem });
        if (name === null) return;
        const path = join(folder, hrefOf(name));
        await this.#attempt(async () => {
            if (kind === 'file') await this.#files.create(path);
            else await this.#files.makeFolder(path);
            this.#tree.open(folder);
            await this.#read(folder);
            if (this.#signal.aborted) return;
            this.#select(path);
            if (kind === 'file') await this.#editor.open(path);
        });
    }

    async #rename() {
        const path = this.#tree.selected;
        if (path === null) return;
        const name = await this.#ask({ title: 'Rename', text: harmless(shownPath(path)), name: shownName(path), action: 'Rename', check: nameProblem });
        if (name === null || name === shownName(path)) return;
        const to = join(parentOf(path), hrefOf(name));
        await this.#attempt(async () => {
            await this.#files.move(path, to);
            this.#editor.moved(path, to);
            await this.#read(parentOf(path));
            if (this.#signal.aborted) return;
            this.#select(to);
        });
    }

    async #remove() {
        const path = this.#tree.selected;
        if (path === null) return;
        const isFolder = this.#tree.isFolder(path);
        const name = harmless(shownPath(path));
        const text = isFolder ? `“${name}” and everything in it are removed.` : `“${name}” is removed.`;
        if ((await this.#ask({ title: 'Delete?', text: `${text} This cannot be undone.`, action: 'Delete' })) === null) return;
        await this.#attempt(async () => {
            await this.#files.remove(path, isFolder);
            this.#editor.moved(path, null);
            await this.#read(parentOf(path));
            if (this.#signal.aborted) return;
            this.#view.focus();
        });
    }

    async #download() {
        const path = this.#tree.selected ?? '';
        await this.#attempt(async () => {
            const link = h('a');
            link.href = await this.#files.link(path, this.#tree.isFolder(path), this.#showsAll);
            link.download = path === '' ? 'workspace.zip' : '';
            link.click();
        });
    }

    // --- dropping

    #dragOver(event) {
        if (![...event.dataTransfer.types].includes('Files')) return;
        event.preventDefault();
        const isHere = this.#at.filesPanel.contains(event.target);
        event.dataTransfer.dropEffect = isHere ? 'copy' : 'none';
        this.#mark(isHere ? this.#folderAt(event.target) : null);
    }

    #folderAt(element) {
        const path = this.#view.pathAt(element);
        if (path === null) return '';
        return this.#tree.isFolder(path) ? path : parentOf(path);
    }

    #mark(folder) {
        const { filesPanel, tree } = this.#at;
        filesPanel.classList.toggle('dropping', folder !== null);
        for (const item of tree.children) item.classList.toggle('target', folder !== null && folder !== '' && item.dataset.path === folder);
    }

    async #drop(event) {
        event.preventDefault();
        const folder = this.#folderAt(event.target);
        this.#mark(null);
        let items;
        try {
            items = await itemsOfDrop(event.dataTransfer);
        } catch {
            items = null;
        }
        if (this.#signal.aborted) return;
        if (items === null) return this.#tellProblem('What was dropped cannot be read.');
        await this.#upload(folder, items);
    }

    async #upload(folder, items) {
        if (items.files.length + items.folders.length === 0) return;
        if (this.#isUploading) return this.#tellProblem('Another upload is on its way.');
        this.#isUploading = true;
        this.#tellProblem('');
        const { filesSaid } = this.#at;
        const tell = ({ done, of, name }) => (filesSaid.textContent = `Uploaded ${done} of ${of}: ${harmless(name)}`);
        filesSaid.textContent = 'Uploading…';
        const { done, problems } = await upload(this.#files, folder, items, { tell, signal: this.#signal });
        this.#isUploading = false;
        if (this.#signal.aborted) return;
        filesSaid.textContent = done === 1 ? 'Uploaded one file.' : `Uploaded ${done} files.`;
        this.#say(filesSaid.textContent);
        const told = problems.slice(0, MAX_PROBLEMS).map(({ path, message }) => `${harmless(path)}: ${message}`);
        if (problems.length > MAX_PROBLEMS) told.push(`and ${problems.length - MAX_PROBLEMS} more`);
        if (items.isCut) told.push('Some were left out: an upload has 2000 files at most.');
        this.#tellProblem(told.join('\n'));
        this.#tree.open(folder);
        await this.#refresh(null);
    }

    #tellProblem(text) {
        const { filesProblem } = this.#at;
        filesProblem.hidden = text === '';
        filesProblem.textContent = text;
    }

    #buttons() {
        const { fileDownload, fileRename, fileDelete } = this.#at;
        const { selected } = this.#tree;
        fileRename.disabled = fileDelete.disabled = selected === null;
        const what = selected === null ? 'Download all' : 'Download';
        fileDownload.textContent = this.#tree.isFolder(selected ?? '') && selected !== null ? 'Download (zip)' : what;
    }
}
