// clients/js against the real server: files, archives, tools, tokens and the log of a sandbox.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, beforeEach, test } from 'node:test';

import { Atoll } from '../../clients/js/src/index.js';
import { asyncDispose } from '../../clients/js/src/waiting.js';
import { startServer } from '../node_support/server.mjs';
import { errorOf, keyed, until } from './js_lab.mjs';

const TOOLS = ['list_directory', 'read_file', 'write_file', 'replace', 'search_file_content', 'glob', 'run_command'];

let server;
let atoll;
let sandbox;
before(async () => {
    server = await startServer({ flags: ['--log-level', 'warn'] });
    atoll = keyed(server);
});
after(() => server?.stop());
beforeEach(async () => {
    await sandbox?.delete();
    sandbox = await atoll.sandboxes.create();
});

const all = (iteration) => until(iteration, () => false);
const codeOf = async (promise) => (await errorOf(promise)).code;
const pathsOf = (entries) => entries.map(({ path }) => path);

test('a file comes back as it was written, also in part and as a stream', async () => {
    const { files } = sandbox;
    const content = Uint8Array.from({ length: 300_000 }, (_, i) => i % 256);
    const entry = await files.write('d/a b?é', new Blob([content]).stream(), { mode: 0o755 });
    assert.deepEqual([entry.type, entry.size, entry.mode, entry.name], ['file', content.length, '0755', 'a b?é']);
    assert.deepEqual(await files.read(entry.path), content);
    assert.deepEqual([...(await files.read(entry.path, { range: { start: 254, end: 258 } }))], [254, 255, 0, 1]);
    for (const range of [{ start: 7, end: 7 }, { start: 9, end: 3 }, { end: 0 }]) {
        assert.deepEqual([...(await files.read(entry.path, { range }))], []);
        assert.equal(await new Response(await files.readStream(entry.path, { range })).text(), '');
    }
    assert.deepEqual([...(await files.read(entry.path, { range: { start: 299_999 } }))], [(300_000 - 1) % 256]);
    for (const range of [{ start: -1 }, { start: 1.5 }, { end: Number.NaN }, { start: Infinity }, { end: '3' }])
        await assert.rejects(files.read(entry.path, { range }), RangeError);
    assert.deepEqual(new Uint8Array(await new Response(await files.readStream(entry.path)).arrayBuffer()), content);
    assert.equal((await sandbox.exec(['stat', '-c', '%s', 'd/a b?é'])).stdout, `${content.length}\n`);
});

test('conditions hold, and an inplace write keeps the file', async () => {
    const { files } = sandbox;
    const first = await files.write('f', 'one', { ifNoneMatch: '*' });
    assert.equal(await codeOf(files.write('f', 'two', { ifNoneMatch: '*' })), 'precondition_failed');
    const second = await files.write('f', 'two', { ifMatch: first.etag });
    assert.equal(await codeOf(files.write('f', 'three', { ifMatch: first.etag })), 'precondition_failed');
    assert.deepEqual([await files.readText('f'), (await files.stat('f')).etag], ['two', second.etag]);
    const { stdout } = await sandbox.exec('ln f g; stat -c %i f');
    await files.write('f', 'four', { inplace: true });
    assert.deepEqual([(await sandbox.exec('stat -c %i f')).stdout, await files.readText('g')], [stdout, 'four']);
});

test('directories are made, listed, moved, copied and removed; names that are no text are reached', async () => {
    const { files } = sandbox;
    await files.mkdir('a/b');
    await files.write({ href: 'a/b/bad%FF' }, 'x');
    const listed = await all(files.list('a', { depth: 2, limit: 1 }));
    assert.deepEqual(pathsOf(listed), ['a/b', 'a/b/bad\ufffd']);
    await files.copy('a', 'c');
    await files.move(listed[1], { href: 'c/g%FE' });
    const moved = await files.move({ href: 'c/g%FE' }, '/workspace/c/50%20off');
    assert.deepEqual([moved.path, moved.href, await files.readText('c/50%20off')], ['c/50%20off', 'c/50%2520off', 'x']);
    assert.equal(await codeOf(files.move(moved, { href: 'c/b/bad%FF' })), 'already_exists');
    await files.mkdir('a/b');
    assert.equal(await codeOf(files.remove('c')), 'directory_not_empty');
    await files.remove('c', { recursive: true });
    assert.deepEqual(pathsOf(await all(files.list())), ['a']);
    assert.equal(await codeOf(files.read('none')), 'file_not_found');
    assert.equal(await codeOf(files.read('a')), 'is_directory');
    await sandbox.exec('ln -s /etc/passwd out');
    assert.equal(await codeOf(files.read('out')), 'outside_workspace');
});

test('a part of the workspace is packed, and unpacked elsewhere', async () => {
    const { files } = sandbox;
    await files.write('src/a/f', 'one', { mode: '0755' });
    const unpacked = await files.unpack(await files.archive({ path: 'src' }), { path: 'copy' });
    assert.equal(unpacked.bytes, 3);
    assert.deepEqual([await files.readText('copy/a/f'), (await files.stat('copy/a/f')).mode], ['one', '0755']);
    assert.deepEqual(pathsOf(await all(files.list('copy', { depth: 3 }))), ['copy/a', 'copy/a/f']);
    for (const format of ['tar.gz', 'zip']) {
        assert.equal((await files.unpack(await files.archive({ path: 'src', format }), { path: format })).bytes, 3);
        assert.deepEqual([await files.readText(`${format}/a/f`), (await files.stat(`${format}/a/f`)).mode], ['one', '0755']);
    }
    assert.equal(await codeOf(files.archive({ format: 'rar' })), 'invalid_field');
    assert.equal(await codeOf(files.unpack('no tar'.repeat(200))), 'invalid_archive');
});

test('a folder goes in and comes out, and links that lead out stay behind', async () => {
    const { files } = sandbox;
    const here = mkdtempSync(path.join(tmpdir(), 'atoll-folders-'));
    try {
        const source = path.join(here, 'source');
        mkdirSync(path.join(source, 'sub', 'x'.repeat(120)), { recursive: true });
        writeFileSync(path.join(source, 'sub', 'run'), 'one', { mode: 0o755 });
        symlinkSync('sub/run', path.join(source, 'link'));
        assert.deepEqual(await files.uploadDir(source, { path: 'web' }), { entries: 4, bytes: 3 });
        assert.equal((await sandbox.exec(['cat', 'web/link'])).stdout, 'one');
        await sandbox.exec(`cd web; ln -s /etc/passwd out; ln -s sub in; mkfifo f; mkdir d; ln -s d/s/../x e; ln -s .. d/s; touch $(printf 'b\\377')`);
        const back = path.join(here, 'back');
        assert.equal(await files.downloadDir('web', back), 2);
        assert.deepEqual(readdirSync(back, 'latin1').sort(), ['b\xff', 'd', 'in', 'link', 'sub']);
        assert.deepEqual([readFileSync(path.join(back, 'link'), 'utf8'), statSync(path.join(back, 'sub', 'run')).mode & 0o100], ['one', 0o100]);
        // A folder that is not there is no broken connection.
        await assert.rejects(files.uploadDir(path.join(here, 'none')), { code: 'ENOENT', name: 'Error' });
    } finally {
        rmSync(here, { recursive: true, force: true });
    }
});

test('the environment names the server, and the end of `await using` deletes what it held', async () => {
    Object.assign(process.env, { ATOLL_URL: `http://${server.address}`, ATOLL_API_KEY: server.key });
    try {
        const conversation = await new Atoll().conversations.create({ agent: 'shell' });
        assert.deepEqual([await conversation.previewUrl(), await conversation.previewUrl(8000)], [conversation.info.sandboxPublicUrl, null]);
        const inner = conversation.sandbox;
        assert.deepEqual([await inner.previewUrl(), await inner.previewUrl(8000)], [conversation.info.sandboxPublicUrl, null]);
        // Twice is no error.
        for (const owned of [conversation, conversation, await new Atoll().sandboxes.create()]) await owned[asyncDispose]();
        assert.equal(await codeOf(conversation.refresh()), 'not_found');
        assert.equal(await codeOf(new Atoll({ token: 'x' }).conversations.get(conversation.id)), 'unauthorized');
    } finally {
        delete process.env.ATOLL_URL;
        delete process.env.ATOLL_API_KEY;
    }
});

test('tools are told in the form of a model, work on the files, and failures are results', async () => {
    const { tools } = await sandbox.tools('anthropic');
    assert.deepEqual(tools.map(({ name }) => name), TOOLS);
    assert.deepEqual((await atoll.tools('openai')).tools.map((tool) => tool.function.name), TOOLS);
    const made = await sandbox.tools.call('write_file', { file_path: 'src/a.txt', content: 'one\n' }, { toolCallId: 'c1' });
    assert.deepEqual([made.success, made.changedFiles, made.context], [true, ['/workspace/src/a.txt'], { toolCallId: 'c1' }]);
    assert.equal((await sandbox.tools.call('replace', { file_path: 'src/a.txt', old_string: 'one', new_string: 'two' })).success, true);
    assert.equal(await sandbox.files.readText('src/a.txt'), 'two\n');
    assert.deepEqual((await sandbox.tools.call('glob', { pattern: '**/*.txt' })).data.files, ['/workspace/src/a.txt']);
    const missing = await sandbox.tools.call('replace', { file_path: 'src/a.txt', old_string: 'none', new_string: 'x' });
    assert.deepEqual([missing.success, missing.technicalDetails.errorCode], [false, 'STRING_NOT_FOUND']);
    const ran = await sandbox.tools.call('run_command', { command: 'cat src/a.txt; exit 3' });
    assert.deepEqual([ran.success, ran.data.exitCode, ran.data.stdout], [true, 3, 'two\n']);
    assert.equal(await codeOf(sandbox.tools.call('format_disk', {})), 'not_found');
});

test('a token opens what its scope says, and has none by default', async () => {
    await sandbox.files.write('note', 'hello');
    const { token, expiresAt } = await sandbox.createToken({ scope: 'files', ttlSeconds: 60 });
    assert.ok(new Date(expiresAt) > new Date());
    const page = new Atoll({ baseUrl: `http://${server.address}`, token }).sandbox(sandbox.id);
    assert.equal(await page.files.readText('note'), 'hello');
    assert.equal(await new Response(await page.files.archive()).text().then((tar) => tar.includes('hello')), true);
    assert.ok([401, 403].includes((await errorOf(page.files.write('note', 'no'))).status));
    assert.equal(await codeOf(sandbox.createToken()), 'invalid_field');
    assert.equal(await codeOf(sandbox.createToken({ scope: 'read' })), 'invalid_field');
});

test('a token of a preview has the address that a browser opens', async () => {
    const shown = await atoll.sandboxes.create({ preview: { access: 'private', ports: [3000] } });
    assert.deepEqual(shown.info.preview, { access: 'private', wake: true, ports: [3000] });
    const { token, url } = await shown.createToken({ scope: 'preview' });
    assert.equal(url, `${shown.info.sandboxPublicUrl}.atoll/enter?token=${token}`);
    await shown.delete();
});

test('a sandbox is found again, and its log has its life', async () => {
    const found = await atoll.sandboxes.get(sandbox.id);
    assert.deepEqual([found.info.status, found.info.conversationId], ['ready', null]);
    assert.ok((await all(atoll.sandboxes.list())).some(({ id }) => id === sandbox.id));
    const log = await sandbox.logs({ stream: 'system' });
    assert.ok(log.entries.every(({ stream, seq }) => stream === 'system' && seq >= log.firstSeq));
    assert.deepEqual((await sandbox.logs({ after: log.next, stream: 'system' })).entries, []);
});
