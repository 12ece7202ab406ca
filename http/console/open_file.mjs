// A file that people look at and edit: the text as read and as typed. save() overwrites no change of others. Pure.
import { bytesOf, contentOf, MAX_SHOWN_BYTES } from './content.mjs';

export class OpenFile {
    #files;
    #etag;

    constructor(files, path, read) {
        this.#files = files;
        this.path = path;
        this.#take(read);
    }

    static async read(files, path, { signal } = {}) {
        return new OpenFile(files, path, await files.read(path, MAX_SHOWN_BYTES, { signal }));
    }

    /** Another Files of the same sandbox, as after another sign-in. */
    use(files) {
        this.#files = files;
    }

    #take({ bytes, isWhole, size, etag }) {
        this.#etag = etag;
        this.size = size;
        this.isWhole = isWhole;
        this.content = contentOf(bytes, isWhole);
        /** The text as typed; '' for a file that is no text. */
        this.text = this.content.text ?? '';
        this.hasChanged = false;
    }

    get isEditable() {
        return this.content.kind === 'text' && this.content.isEditable && this.#etag !== null;
    }
    get isDirty() {
        return this.content.kind === 'text' && this.text !== this.content.text;
    }

    /** Reads it again, and drops what was typed. */
    async reload() {
        this.#take(await this.#files.read(this.path, MAX_SHOWN_BYTES));
    }

    /** Sees whether it is still the file that was read; `hasChanged` tells. */
    async look() {
        this.hasChanged = (await this.#files.etag(this.path)) !== this.#etag;
        return this.hasChanged;
    }

    /** Gives 'saved', or 'changed' where the file is not the one that was read: then nothing is written. */
    async save() {
        const text = this.text;
        try {
            this.#saved(text, await this.#files.save(this.path, bytesOf(text, this.content.lineEnds), this.#etag));
        } catch (error) {
            if (error.status !== 412 && error.status !== 404) throw error;
            this.hasChanged = true;
            return 'changed';
        }
        return 'saved';
    }

    /** Writes it whatever is there now. */
    async overwrite() {
        const text = this.text;
        this.#saved(text, await this.#files.upload(this.path, bytesOf(text, this.content.lineEnds)));
    }

    #saved(text, etag) {
        this.#etag = etag;
        this.content.text = text;
        this.size = bytesOf(text, this.content.lineEnds).length;
        this.hasChanged = false;
    }
}
