import assert from 'node:assert/strict';
import { test } from 'node:test';

import { SseParser } from '../../../http/console/sse.mjs';

function parse(...pieces) {
    const events = [];
    let comments = 0;
    const parser = new SseParser((event) => events.push(event), () => ++comments);
    for (const piece of pieces) parser.feed(piece);
    return { events, comments };
}

test('an event has an id, a type and data', () => {
    const { events } = parse('id: 3\nevent: text_delta\ndata: {"a":1}\n\n');
    assert.deepEqual(events, [{ id: '3', type: 'text_delta', data: '{"a":1}' }]);
});

test('a type is for one event, an id stays', () => {
    const { events } = parse('id:1\nevent:x\ndata:a\n\ndata:b\n\n');
    assert.deepEqual(events, [{ id: '1', type: 'x', data: 'a' }, { id: '1', type: 'message', data: 'b' }]);
});

test('comments are no events and an event without data is none', () => {
    const { events, comments } = parse(': heartbeat\n\nretry: 1000\n\nevent: x\n\ndata\n\n');
    assert.equal(comments, 1);
    assert.deepEqual(events.map((event) => event.data), ['']);
});

test('lines end in any of three ways, cut anywhere', () => {
    for (const end of ['\n', '\r', '\r\n']) {
        const text = `\ufeff${['id: 1', 'data: a', 'data: b', '', ': c', 'data:  d', '', ''].join(end)}`;
        for (let cut = 1; cut < text.length; ++cut) {
            const { events, comments } = parse(text.slice(0, cut), text.slice(cut), 'data: e\n\n');
            const data = events.map((event) => event.data);
            assert.deepEqual(data, ['a\nb', ' d', 'e'], `${JSON.stringify(end)} cut at ${cut}`);
            assert.equal(comments, 1);
        }
    }
});

test('an event that is not finished is none', () => {
    assert.deepEqual(parse('data: a\n').events, []);
});

test('an event without end is refused', () => {
    const parser = new SseParser(() => {});
    const piece = 'x'.repeat(1024 * 1024);
    assert.throws(() => {
        for (let i = 0; i < 64; ++i) parser.feed(piece);
    });
});
