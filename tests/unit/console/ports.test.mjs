import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Ports, portsWith, previewUrl } from '../../../http/console/ports.mjs';

const opened = (port, url) => ({ type: 'port_opened', data: { port, url } });

test('ports come and go with their events, and all of them with the sandbox', () => {
    const ports = new Ports();
    assert.equal(ports.apply(opened(8080, null)), true);
    ports.apply(opened(5173, 'http://localhost:30001/'));
    ports.apply(opened(80, 'https://preview-a.example/'));
    assert.deepEqual(ports.shown, [[80, 'https://preview-a.example/'], [5173, 'http://localhost:30001/']]);
    assert.deepEqual(ports.hidden, [8080]);
    ports.apply(opened(8080, 'http://localhost:30002/'));
    assert.deepEqual(ports.hidden, []);
    assert.equal(ports.apply({ type: 'port_closed', data: { port: 80 } }), true);
    assert.equal(ports.apply({ type: 'port_closed', data: { port: 80 } }), false);
    assert.equal(ports.apply({ type: 'sandbox_paused', data: { mode: 'warm' } }), true);
    assert.equal(ports.shown.length, 2, 'a frozen sandbox keeps its ports');
    assert.equal(ports.apply({ type: 'sandbox_paused', data: { mode: 'cold' } }), true);
    assert.deepEqual(ports.shown, []);
    assert.equal(ports.apply({ type: 'text_delta', data: {} }), false);
});

test('a closed port says why, and offers to resume where that helps', () => {
    const ports = new Ports();
    const about = () => ports.closedBy(5173);
    ports.apply(opened(5173, 'http://localhost:30001/'));
    assert.equal(about(), null);
    assert.equal(ports.apply({ type: 'sandbox_paused', data: { mode: 'warm' } }), true);
    assert.deepEqual(about(), { text: 'Port 5173 does not answer: the conversation is frozen.', canResume: true });
    assert.equal(ports.apply({ type: 'sandbox_resumed', data: { mode: 'warm' } }), true);
    assert.equal(about(), null);
    ports.apply({ type: 'port_closed', data: { port: 5173 } });
    assert.match(about().text, /^Port 5173 is closed: nothing listens there/);
    assert.equal(about().canResume, false);
    // The port was closed before: that the reason is another one is a change, too.
    assert.equal(ports.apply({ type: 'sandbox_terminated', data: { class: 'stopped' } }), true);
    assert.match(about().text, /the sandbox ended/);
    assert.equal(ports.apply({ type: 'sandbox_paused', data: { mode: 'cold' } }), true);
    assert.deepEqual(about(), { text: 'Port 5173 is closed: the conversation is paused.', canResume: true });
    assert.equal(ports.apply({ type: 'sandbox_resumed', data: { mode: 'cold' } }), true);
    assert.match(about().text, /nothing listens there/);
    ports.apply(opened(5173, 'http://localhost:30001/'));
    assert.equal(about(), null);
});

test('nothing but a web address is opened in a frame', () => {
    for (const url of ['javascript:alert(1)', 'data:text/html,x', 'http://user:pw@host/', 'x', '', null, 7, '/path'])
        assert.equal(previewUrl(url), null);
    const ports = new Ports();
    ports.apply(opened(80, 'javascript:alert(1)'));
    assert.deepEqual(ports.shown, []);
    for (const port of [0, 65536, -1, 1.5, '80', null]) assert.equal(ports.apply(opened(port, 'http://localhost/')), false);
});

test('a port is added to the list, first where only the first has an address', () => {
    const preview = { ports: [5173, 80] };
    assert.deepEqual(portsWith({ sandboxPublicUrl: 'http://localhost:30001/', preview }, 8080), [8080, 5173, 80]);
    assert.deepEqual(portsWith({ sandboxPublicUrl: 'https://preview-a.example/', preview }, 8080), [5173, 80, 8080]);
    assert.deepEqual(portsWith({ sandboxPublicUrl: 'https://preview-a.example/', preview }, 80), [5173, 80]);
    assert.equal(portsWith({ sandboxPublicUrl: null, preview }, 8080), null);
});
