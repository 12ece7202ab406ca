import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError } from '../../../http/console/api.mjs';
import { itemsOfDrop, itemsOfInput, MAX_FILES, upload } from '../../../http/console/upload.mjs';

const fileEntry = (name) => ({ name, isFile: true, isDirectory: false, file: (done) => done({ name, blob: true }) });
const folderEntry = (name, children, pages = 2) => ({
    name,
    isFile: false,
    isDirectory: true,
    createReader() {
        const left = [...children];
        return { readEntries: (done) => done(left.splice(0, pages)) };
    },
});
const drop = (...entries) => ({ items: entries.map((entry) => ({ kind: 'file', webkitGetAsEntry: () => entry })) });

function fakeFiles(refuse = () => null) {
    const sent = [];
    let open = 0;
    const files = {
        most: 0,
        async upload(path) {
            files.most = Math.max(files.most, ++open);
            await new Promise((done) => setImmediate(done));
            --open;
            const error = refuse(path);
            if (error !== null) throw error;
            sent.push(path);
        },
        async makeFolder(path) {
            const error = refuse(path);
            if (error !== null) throw error;
            sent.push(`${path}/`);
        },
    };
    return { files, sent };
}

test('a drop gives files and folders with their places, however many are told at a time', async () => {
    const items = await itemsOfDrop(drop(fileEntry('a.txt'), folderEntry('dir', [fileEntry('1'), fileEntry('2'), fileEntry('3'), folderEntry('empty', [])])));
    assert.deepEqual(items.files.map(({ path }) => path), ['a.txt', 'dir/1', 'dir/2', 'dir/3']);
    assert.deepEqual(items.folders, ['dir', 'dir/empty']);
    assert.equal(items.isCut, false);
});

test('a drop of text, of too many files, or of folders without end stays bounded', async () => {
    assert.deepEqual(await itemsOfDrop({ items: [{ kind: 'string' }] }), { files: [], folders: [], isCut: false });
    const many = await itemsOfDrop(drop(folderEntry('d', Array.from({ length: MAX_FILES + 50 }, (_, i) => fileEntry(`${i}`)), 100)));
    assert.equal(many.files.length + many.folders.length, MAX_FILES);
    assert.equal(many.isCut, true);
    const endless = { name: 'd', isDirectory: true, createReader: () => ({ readEntries: ((told) => (done) => done(told++ === 0 ? [endless] : []))(0) }) };
    const deep = await itemsOfDrop(drop(endless));
    assert.equal(deep.isCut, true);
    assert.ok(deep.folders.length < 100);
});

test('names are kept as they are, and what is no name is told', async () => {
    const { files, sent } = fakeFiles();
    const items = itemsOfInput([{ name: '%41.txt' }, { name: '50%20off ü' }, { name: 'x', webkitRelativePath: 'dir/sub/x' }, { name: '..', webkitRelativePath: 'dir/../x' }]);
    const { done, problems } = await upload(files, 'd%FF', items);
    assert.deepEqual(sent.sort(), ['d%FF/%2541.txt', 'd%FF/50%2520off%20%C3%BC', 'd%FF/dir/sub/x']);
    assert.equal(done, 3);
    assert.deepEqual(problems.map(({ path }) => path), ['dir/../x']);
});

test('one that fails does not hold up the others, and few are on their way at once', async () => {
    const { files, sent } = fakeFiles((path) => (path === '3' ? new ApiError(409, 'is_directory', 'a folder') : null));
    const told = [];
    const items = itemsOfInput(Array.from({ length: 9 }, (_, i) => ({ name: `${i}` })));
    const { done, problems } = await upload(files, '', items, { tell: (state) => told.push(state.done) });
    assert.equal(done, 8);
    assert.deepEqual(problems, [{ path: '3', message: 'a folder' }]);
    assert.equal(sent.length, 8);
    assert.ok(files.most <= 2);
    assert.equal(told.length, 9);
});

test('nothing more is sent where the disk is full or the server away', async () => {
    for (const status of [507, 0]) {
        const { files, sent } = fakeFiles((path) => (Number(path) >= 2 ? new ApiError(status, 'x', 'no') : null));
        const { problems } = await upload(files, '', itemsOfInput(Array.from({ length: 50 }, (_, i) => ({ name: `${i}` }))));
        assert.deepEqual(sent.sort(), ['0', '1']);
        assert.ok(problems.length <= 2);
    }
});

// A folder that is there already is no error of the server.
test('something else where a folder is to be is told', async () => {
    const { files } = fakeFiles((path) => (path === 'dir' ? new ApiError(409, 'already_exists', 'there') : null));
    const { done, problems } = await upload(files, '', { files: [], folders: ['dir'] });
    assert.deepEqual([done, problems], [0, [{ path: 'dir', message: 'there' }]]);
});

test('an upload that is ended tells nothing more, also of what was on its way', async () => {
    const abort = new AbortController();
    const { files, sent } = fakeFiles();
    const makeFolder = files.makeFolder;
    files.makeFolder = async (path) => {
        await makeFolder(path);
        if (path === 'b') abort.abort();
    };
    const told = [];
    await upload(files, '', { files: [], folders: ['a', 'b', 'c'] }, { tell: ({ name }) => told.push(name), signal: abort.signal });
    assert.deepEqual([sent, told], [['a/', 'b/'], ['a']]);
});
