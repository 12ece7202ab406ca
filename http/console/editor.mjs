// The open file in the page: its text to edit, a picture, or the first of its bytes. What was typed and not saved is kept
// while another file, or another conversation, is looked at.
import { harmless } from './ansi.mjs';
import { MAX_SHOWN_BYTES } from './content.mjs';
import { OpenFile } from './open_file.mjs';
import { isWithin, shownName, shownPath } from './paths.mjs';
import { bytesText } from './usage.mjs';

export class Editor {
    #files;
    #at;
    #on;
    #signal;
    #open = null;
    #edits;
    #run = 0;

    /**
     * `edits`: path -> OpenFile with changes, also those of an editor before this one. `on`: {changed(), closed(), say(text)}. `signal` ends
     * it: the elements are another editor's then.
     */
    constructor(files, edits, at, on, signal) {
        this.#files = files;
        this.#edits = edits;
        for (const file of edits.values()) file.use(files);
        this.#at = at;
        this.#on = on;
        this.#signal = signal;
        const listen = (element, type, act) => element.addEventListener(type, act, { signal });
        listen(at.editorText, 'input', () => this.#typed());
        listen(at.editorSave, 'click', () => this.#save());
        listen(at.editorTheirs, 'click', () => this.#reload());
        listen(at.editorRevert, 'click', () => this.#reload());
        listen(at.editorMine, 'click', () => this.#overwrite());
        listen(at.editorClose, 'click', () => this.close());
        listen(at.editor, 'keydown', (event) => {
            if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 's') return;
            event.preventDefault();
            this.#save();
        });
        signal.addEventListener('abort', () => {
            ++this.#run;
            this.#open = null;
        });
        this.#show(null);
    }

    get path() {
        return this.#open?.path ?? null;
    }
    isDirty(path) {
        return this.#edits.has(path);
    }

    async open(path) {
        if (this.#signal.aborted) return;
        if (this.#open?.path === path) return this.#focus();
        const run = ++this.#run;
        let file = this.#edits.get(path);
        try {
            file ??= await OpenFile.read(this.#files, path);
        } catch (error) {
            if (run === this.#run) this.#show(null, error.message);
            return;
        }
        if (run !== this.#run) return;
        this.#show(file);
        this.#focus();
        this.look();
    }

    close() {
        ++this.#run;
        this.#show(null);
        this.#on.closed();
    }

    /** The file may be another one now: one without changes is read again, else people are told. */
    async look() {
        const file = this.#open;
        if (file === null) return;
        try {
            if (!(await file.look()) || file !== this.#open) return;
            if (file.isDirty) this.#update();
            else await this.#reload();
        } catch (error) {
            if (file === this.#open && error.status === 404) this.#note('The file is gone.');
        }
    }

    /** The file or folder at `path` is now at `to`, and edits go there with it; `to` null: it is gone, with its edits. */
    moved(path, to) {
        const open = this.path;
        const now = (one) => to + one.slice(path.length);
        for (const [one, file] of [...this.#edits]) {
            if (!isWithin(one, path)) continue;
            this.#edits.delete(one);
            if (to === null) continue;
            file.path = now(one);
            this.#edits.set(file.path, file);
        }
        if (open === null || !isWithin(open, path)) return;
        this.#show(null);
        if (to !== null) this.open(now(open));
    }

    #show(file, problem = '') {
        this.#open = file;
        const { editorEmpty, editorOpen, editorText, editorDump, editorPicture } = this.#at;
        editorOpen.hidden = file === null;
        editorEmpty.hidden = file !== null;
        editorEmpty.textContent = problem === '' ? 'Open a file of the workspace to see it here.' : problem;
        if (file === null) return;
        const { kind } = file.content;
        editorText.hidden = kind !== 'text';
        editorDump.hidden = kind !== 'binary';
        editorPicture.hidden = kind !== 'picture';
        editorText.value = file.text;
        editorText.readOnly = !file.isEditable;
        editorText.scrollTop = 0;
        editorDump.textContent = file.content.dump ?? '';
        if (kind === 'picture') {
            editorPicture.src = `data:${file.content.type};base64,${file.content.data}`;
            editorPicture.alt = harmless(shownName(file.path));
        } else editorPicture.removeAttribute('src');
        this.#update();
    }

    #focus() {
        const { editorText, editorClose } = this.#at;
        (editorText.hidden ? editorClose : editorText).focus({ preventScroll: true });
    }

    #typed() {
        if (this.#open === null) return;
        this.#open.text = this.#at.editorText.value;
        this.#update();
    }

    #update(problem = '') {
        const file = this.#open;
        if (file === null) return;
        const { editorName, editorFacts, editorSave, editorRevert, editorConflict } = this.#at;
        const before = this.#edits.has(file.path);
        if (file.isDirty) this.#edits.set(file.path, file);
        else this.#edits.delete(file.path);
        editorName.textContent = harmless(shownPath(file.path));
        const words = [file.size === null ? `more than ${bytesText(MAX_SHOWN_BYTES)}` : bytesText(file.size)];
        if (file.content.kind === 'binary') words.push('binary');
        if (file.content.kind === 'picture') words.push('picture');
        if (file.content.lineEnds === 'crlf') words.push('CRLF');
        if (file.isDirty) words.push('not saved');
        editorFacts.textContent = words.join(' · ');
        editorSave.hidden = editorRevert.hidden = !file.isEditable;
        editorSave.disabled = editorRevert.disabled = !file.isDirty;
        editorConflict.hidden = !(file.hasChanged && file.isDirty);
        const dump = file.content.kind === 'binary' ? 'This is no text: the first of its bytes are shown.' : '';
        this.#note(problem || file.content.why || dump, problem !== '');
        if (before !== file.isDirty) this.#on.changed();
    }

    #note(text, isProblem = false) {
        const { editorNote } = this.#at;
        editorNote.hidden = text === '';
        editorNote.textContent = text;
        editorNote.className = isProblem ? 'problem' : 'hint';
    }

    async #act(work, said) {
        const file = this.#open;
        if (file === null) return;
        try {
            const answer = await work(file);
            if (file !== this.#open) return this.#settle(file);
            if (answer !== 'changed') this.#on.say(said);
            this.#update();
        } catch (error) {
            if (file === this.#open) this.#update(error.message);
        }
    }

    // It was saved, or read again, when it was not open any more.
    #settle(file) {
        if (file.isDirty || this.#edits.get(file.path) !== file) return;
        this.#edits.delete(file.path);
        this.#on.changed();
    }

    #save() {
        if (this.#open?.isEditable && this.#open.isDirty) this.#act((file) => file.save(), 'The file was saved.');
    }
    #overwrite() {
        this.#act((file) => file.overwrite(), 'The file was saved.');
    }
    #reload() {
        return this.#act(async (file) => {
            await file.reload();
            if (file !== this.#open) return;
            const { scrollTop } = this.#at.editorText;
            this.#show(file);
            this.#at.editorText.scrollTop = scrollTop;
        }, 'The file was read again.');
    }
}
