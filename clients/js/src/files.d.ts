import type { Abortable, Cancellable, Iteration } from './index.js';

// Files. A path is relative to the workspace or begins with /workspace, and is text as it is: `50%20off` is a file of that name. A
// name may have bytes that are not UTF-8; only `href` leads to those, so give an entry, a change or `{ href }` in place of text.

export type FilePath = string | { readonly href: string };

export interface ReadOptions extends Cancellable {
    /** Bytes from `start` up to, and without, `end`; none where `end` is not behind `start`. Without `end` to the end of the file. */
    range?: { start?: number; end?: number };
}
export interface WriteOptions extends ChangeOptions {
    /** `0o755`, or "0755". */
    mode?: number | string;
    /** Truncate and write, instead of replacing the file as a whole. */
    inplace?: boolean;
    ifMatch?: string;
    ifNoneMatch?: string;
}
export interface FileEntry {
    /** The path as it is, with U+FFFD for what is not UTF-8. */
    path: string;
    /** The path percent-encoded, exact: what stands behind `files/` in an address. */
    href: string;
    name: string;
    type: 'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device';
    size: number;
    /** Permissions in octal: "0644". */
    mode: string;
    mtime: string;
    /** Files only: names the version of the content, for `ifMatch`. */
    etag?: string;
    /** Links only: the path that the link leads to. */
    target?: string;
}
/** The types of a body. In a browser streams are collected before they are sent. */
export type FileData = string | ArrayBuffer | Uint8Array | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array | string>;
export interface FileChange {
    /** `created`: also in the place of what had the name before. `renamed` without `to`: away from what is watched. */
    change: 'created' | 'modified' | 'attributes' | 'deleted' | 'renamed';
    path: string;
    href: string;
    to?: string;
    toHref?: string;
    directory: boolean;
}
/** `rescan`: changes may have been missed, look again. `incomplete`: so many directories are not watched. */
export type FileEvent =
    | { type: 'started' | 'rescan' | 'paused' }
    | { type: 'changes'; changes: FileChange[] }
    | { type: 'incomplete'; directories: number };
/** How far a change of files is, twice a second while it is at work. */
export interface FileProgress {
    type: 'file_progress';
    op: 'write' | 'move' | 'copy' | 'delete' | 'unpack';
    entries: number;
    bytes: number;
}
export interface ChangeOptions extends Cancellable {
    onProgress?: (progress: FileProgress) => void;
}
export type ArchiveFormat = 'tar' | 'tar.gz' | 'zip';
export interface Files {
    read(path: FilePath, options?: ReadOptions): Promise<Uint8Array>;
    readText(path: FilePath, options?: ReadOptions): Promise<string>;
    readStream(path: FilePath, options?: ReadOptions): Promise<ReadableStream<Uint8Array>>;
    /** The file is replaced as a whole, or stays as it was. Parents are made. */
    write(path: FilePath, data: FileData, options?: WriteOptions): Promise<FileEntry>;
    /**
     * The entries of a directory, of the workspace by default. `all`, here and below: with what programs keep at the top of the workspace, which
     * is left out otherwise (`.atoll`, `.bash_history`, `.cache`, `.config`, `.local`, `.node_repl_history`, `.npm`, `.python_history`).
     */
    list(path?: FilePath, options?: { depth?: number; limit?: number; all?: boolean } & Cancellable): Iteration<FileEntry>;
    stat(path: FilePath, options?: Cancellable): Promise<FileEntry>;
    /** With its parents. One that is there stays as it is. */
    mkdir(path: FilePath, options?: Cancellable): Promise<FileEntry>;
    /** Something at `to` gives way only with `overwrite`. */
    move(path: FilePath, to: FilePath, options?: { overwrite?: boolean } & ChangeOptions): Promise<FileEntry>;
    copy(path: FilePath, to: FilePath, options?: { overwrite?: boolean } & ChangeOptions): Promise<FileEntry>;
    remove(path: FilePath, options?: { recursive?: boolean } & ChangeOptions): Promise<void>;
    /** The workspace, or the directory `path` in it, as an archive, a tar by default. */
    archive(options?: { path?: FilePath; format?: ArchiveFormat; all?: boolean } & Cancellable): Promise<ReadableStream<Uint8Array>>;
    /** Unpacks an archive, whose first bytes tell its format, into the workspace, or into the directory `path` in it. */
    unpack(data: FileData, options?: { path?: FilePath; format?: ArchiveFormat } & ChangeOptions): Promise<{ entries: number; bytes: number }>;
    /** Copies the content of a folder of this machine (Node only) into the workspace, or into the directory `path` in it. Links stay links. */
    uploadDir(local: string, options?: { path?: FilePath } & ChangeOptions): Promise<{ entries: number; bytes: number }>;
    /**
     * Copies the directory `path` of the workspace, all of it with `''`, into a folder of this machine (Node only), which is made; gives the number
     * of files. Nothing is written outside of that folder, and links that lead out of it are left out.
     */
    downloadDir(path: FilePath, local: string, options?: { all?: boolean } & Cancellable): Promise<number>;
    /**
     * Changes as they happen, in the workspace or below the directory `path`. It starts no sandbox and keeps none running. After a
     * connection that broke, and after a pause, comes a `rescan`.
     */
    watch(options?: { path?: FilePath; recursive?: boolean; all?: boolean } & Abortable): Iteration<FileEvent>;
}
