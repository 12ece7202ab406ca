import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bytesOf, contentOf, hexDump } from '../../../http/console/content.mjs';

const bytes = (text) => new TextEncoder().encode(text);

test('text that was read and not changed is written back byte by byte', () => {
    for (const text of ['', 'a\nb\n', 'a\r\nb\r\n', '\ufeffwith a mark\n', 'ends here', 'ä😀\n', 'a\u2028b']) {
        const content = contentOf(bytes(text), true);
        assert.equal(content.kind, 'text');
        assert.equal(content.isEditable, true, JSON.stringify(text));
        assert.deepEqual(bytesOf(content.text, content.lineEnds), bytes(text));
        assert.ok(!content.text.includes('\r'));
    }
});

test('text whose line ends would not survive is shown and not edited', () => {
    for (const text of ['a\r\nb\n', 'a\rb', 'a\n\r\n', '\r\r\n']) {
        const content = contentOf(bytes(text), true);
        assert.equal(content.kind, 'text');
        assert.equal(content.isEditable, false);
        assert.match(content.why, /line ends/i);
    }
});

test('a part of a file is not edited, also one that ends within a character', () => {
    const content = contentOf(bytes('aä').subarray(0, 2), false);
    assert.equal(content.kind, 'text');
    assert.equal(content.text, 'a');
    assert.equal(content.isEditable, false);
    assert.equal(contentOf(bytes('aä').subarray(0, 2), true).kind, 'binary');
});

test('what is no UTF-8, or holds a NUL, is shown as bytes', () => {
    for (const raw of [[0xff, 0xfe, 0x41], [0x41, 0, 0x42], [0xc0, 0x80], [0xed, 0xa0, 0x80]]) {
        const content = contentOf(Uint8Array.from(raw), true);
        assert.equal(content.kind, 'binary');
        assert.ok(content.dump.startsWith('00000000  '));
    }
    const long = contentOf(new Uint8Array(100_000), true);
    assert.equal(long.dump.split('\n').length, 256);
});

test('bytes are told with their places and visible characters', () => {
    const [first, second] = hexDump(Uint8Array.from({ length: 17 }, (_, index) => 0x3c + index)).split('\n');
    assert.equal(first, `00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK`);
    assert.match(second, /^00000010 {2}4c +L$/);
});

test('pictures are told by their bytes, and a vector image is text', () => {
    const png = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2]);
    assert.deepEqual(contentOf(png, true), { kind: 'picture', type: 'image/png', data: 'iVBORw0KGgoBAg==' });
    assert.equal(contentOf(png, false).kind, 'binary');
    assert.equal(contentOf(bytes('<svg onload="alert(1)"/>'), true).kind, 'text');
    assert.equal(contentOf(bytes('<html><script>1</script>'), true).kind, 'text');
});
