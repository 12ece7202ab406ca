import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError } from '../../../http/console/api.mjs';
import { MAX_SHOWN_BYTES } from '../../../http/console/content.mjs';
import { Files, MAX_ENTRIES } from '../../../http/console/files.mjs';
import { OpenFile } from '../../../http/console/open_file.mjs';

// A server with files by their paths: {bytes, etag}.
function fakeServer(content = {}) {
    const files = new Map(Object.entries(content).map(([path, text]) => [path, { bytes: Buffer.from(text), version: 1 }]));
    const asked = [];
    const etag = ({ version }) => `"${version}"`;
    const api = {
        async fetch(method, address, { bytes, body, headers = {} } = {}) {
            asked.push([method, address, body ?? headers]);
            const path = decodeURIComponent(address.split('?')[0].replace('/v1/sandboxes/s/files/', ''));
            const known = files.get(path);
            if (method === 'PUT') {
                if ('If-Match' in headers && (known === undefined || headers['If-Match'] !== etag(known))) throw new ApiError(412, 'precondition_failed', 'other');
                if ('If-None-Match' in headers && known !== undefined) throw new ApiError(412, 'precondition_failed', 'there');
                const now = { bytes: Buffer.from(bytes), version: (known?.version ?? 0) + 1 };
                files.set(path, now);
                return new Response(JSON.stringify({ path, etag: etag(now) }), { status: 200 });
            }
            if (known === undefined) throw new ApiError(404, 'not_found', 'gone');
            return new Response(method === 'HEAD' ? null : known.bytes, { headers: { ETag: etag(known), 'Content-Length': String(known.bytes.length) } });
        },
        async json(method, address, { body } = {}) {
            asked.push([method, address, body]);
            assert.ok(address.endsWith('/tokens'));
            return { token: 'v1.t+k' };
        },
    };
    return { api, files, asked, sandbox: new Files(api, 's') };
}

test('a file is read up to a bound and no further', async () => {
    const { sandbox } = fakeServer({ short: 'abc', long: 'x'.repeat(100), empty: '' });
    const short = await sandbox.read('short', 3);
    assert.deepEqual([short.isWhole, short.size, Buffer.from(short.bytes).toString(), short.etag], [true, 3, 'abc', '"1"']);
    const long = await sandbox.read('long', 99);
    assert.deepEqual([long.isWhole, long.size, long.bytes.length], [false, 100, 99]);
    const empty = await sandbox.read('empty', 10);
    assert.deepEqual([empty.isWhole, empty.size], [true, 0]);
});

test('a folder is listed page by page, up to a bound', async () => {
    let pages = 0;
    const api = {
        async json(method, address) {
            assert.match(address, /^\/v1\/sandboxes\/s\/files\/a%20b\?list=1&depth=1&limit=1000/);
            assert.equal(address.includes('cursor='), pages > 0);
            return { entries: Array.from({ length: 1000 }, () => ({})), next: ++pages === 100 ? null : `c&${pages}` };
        },
    };
    const { entries, isCut } = await new Files(api, 's').list('a%20b');
    assert.equal(entries.length, MAX_ENTRIES);
    assert.equal(isCut, true);
});

test('what the server hides is counted, and asked for where it is wanted', async () => {
    const asked = [];
    const api = {
        async json(method, address) {
            asked.push(address);
            return { entries: [], next: null, hidden: address.includes('all=1') ? 0 : 3, token: 't' };
        },
        fetch: async (method, address) => void asked.push(address),
    };
    const files = new Files(api, 's');
    assert.equal((await files.list('')).hidden, 3);
    assert.equal((await files.list('', { all: true })).hidden, 0);
    await files.watch(undefined, true);
    assert.deepEqual(asked.map((address) => address.includes('all=1')), [false, true, true]);
    assert.equal(await files.link('', true, true), '/v1/sandboxes/s/archive?format=zip&all=1&token=t');
});

test('a link carries a token for files and no key', async () => {
    const { sandbox, asked } = fakeServer();
    assert.equal(await sandbox.link('a%20b', false), '/v1/sandboxes/s/files/a%20b?token=v1.t%2Bk');
    assert.equal(asked.at(-1)[2].scope, 'files');
    assert.equal(await sandbox.link('d%FF%2541', true), '/v1/sandboxes/s/archive?path=d%FF%2541&format=zip&token=v1.t%2Bk');
    assert.equal(await sandbox.link('', true), '/v1/sandboxes/s/archive?format=zip&token=v1.t%2Bk');
});

test('a file is moved to the bytes of a name', async () => {
    const { sandbox, asked } = fakeServer({ 'a': 'x' });
    await sandbox.move('a', 'd%FF/50%2520off');
    assert.deepEqual(asked.at(-1), ['POST', '/v1/sandboxes/s/files/a', { op: 'move', toHref: 'd%FF/50%2520off' }]);
});

test('an edit is saved over the file that was read', async () => {
    const server = fakeServer({ 'a.txt': 'one\r\ntwo\r\n' });
    const file = await OpenFile.read(server.sandbox, 'a.txt');
    assert.equal(file.isDirty, false);
    file.text += 'three\n';
    assert.equal(file.isDirty, true);
    assert.equal(await file.save(), 'saved');
    assert.equal(server.files.get('a.txt').bytes.toString(), 'one\r\ntwo\r\nthree\r\n');
    assert.equal(file.isDirty, false);
    file.text = 'four\n';
    assert.equal(await file.save(), 'saved');
    assert.equal(await file.look(), false);
});

test('a change of someone else is not overwritten, unless people say so', async () => {
    const server = fakeServer({ a: 'one' });
    const file = await OpenFile.read(server.sandbox, 'a');
    await server.sandbox.upload('a', Buffer.from('theirs'));
    file.text = 'mine';
    assert.equal(await file.save(), 'changed');
    assert.equal(server.files.get('a').bytes.toString(), 'theirs');
    assert.equal(file.isDirty && file.hasChanged, true);
    assert.equal(await file.save(), 'changed');
    await file.overwrite();
    assert.equal(server.files.get('a').bytes.toString(), 'mine');
    assert.equal(file.isDirty || file.hasChanged, false);
    file.text = 'more';
    assert.equal(await file.save(), 'saved');
});

test('a file that was removed meanwhile is not made again silently', async () => {
    const server = fakeServer({ a: 'one' });
    const file = await OpenFile.read(server.sandbox, 'a');
    server.files.delete('a');
    file.text = 'mine';
    assert.equal(await file.save(), 'changed');
    assert.equal(server.files.has('a'), false);
    await assert.rejects(file.look(), { status: 404 });
});

test('what was typed while a save was on its way is not taken for saved', async () => {
    const server = fakeServer({ a: 'one' });
    const file = await OpenFile.read(server.sandbox, 'a');
    file.text = 'two';
    const saving = file.save();
    file.text = 'three';
    await saving;
    assert.equal(server.files.get('a').bytes.toString(), 'two');
    assert.equal(file.isDirty, true);
});

test('a long file and one of bytes cannot be edited', async () => {
    const { sandbox } = fakeServer({ long: 'x'.repeat(MAX_SHOWN_BYTES + 1), binary: 'a\0b' });
    const long = await OpenFile.read(sandbox, 'long');
    assert.deepEqual([long.isEditable, long.size, long.text.length], [false, MAX_SHOWN_BYTES + 1, MAX_SHOWN_BYTES]);
    const binary = await OpenFile.read(sandbox, 'binary');
    assert.deepEqual([binary.isEditable, binary.isDirty, binary.content.kind], [false, false, 'binary']);
});

test('a new file replaces none', async () => {
    const server = fakeServer({ a: 'one' });
    await assert.rejects(server.sandbox.create('a'), { status: 412 });
    await server.sandbox.create('b');
    assert.equal(server.files.get('b').bytes.length, 0);
});

test('an edit is saved by the requests of whoever is signed in now', async () => {
    const { api, sandbox, files } = fakeServer({ a: 'one' });
    let isRefused = false;
    const old = new Files({ ...api, fetch: async (...asked) => (isRefused ? Promise.reject(new ApiError(401, 'invalid_key', 'no')) : api.fetch(...asked)) }, 's');
    const file = await OpenFile.read(old, 'a');
    isRefused = true;
    file.text = 'two';
    await assert.rejects(file.save(), /no/);
    file.use(sandbox);
    assert.equal(await file.save(), 'saved');
    assert.equal(String(files.get('a').bytes), 'two');
});
