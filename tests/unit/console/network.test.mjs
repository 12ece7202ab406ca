import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Denials, denialText, headersOf, networkOf, readRules, rulesOf } from '../../../http/console/network.mjs';

const denied = (host, port, reason = 'not_listed', more = {}) => ({ type: 'egress_denied', data: { host, port, reason, ...more } });
const egress = (...allow) => ({ mode: 'egress', allow });
const targets = (denials, network) => denials.shown(network).map(({ target }) => target);
const refused = (...events) => {
    const denials = new Denials();
    for (const event of events) assert.equal(denials.apply(event), true);
    return denials;
};

test('rules are read however people separate them', () => {
    assert.deepEqual(readRules(' api.example.com\n*.example.org:443, @npm\r\n\n'), ['api.example.com', '*.example.org:443', '@npm']);
    assert.deepEqual(readRules(' \n'), []);
});

test('a network is replaced as a whole, and keeps what the form does not show', () => {
    const before = { mode: 'egress', allow: ['a.example'], routes: [{ name: 'anthropic' }] };
    assert.deepEqual(networkOf('egress', ['b.example'], before), { mode: 'egress', allow: ['b.example'], routes: [{ name: 'anthropic' }] });
    assert.deepEqual(networkOf('egress', [], 'none'), { mode: 'egress', allow: [] });
    assert.equal(networkOf('none', ['b.example'], before), 'none');
    // A rule that sets headers is a text in the form, and itself in the request.
    const rule = { host: 'a.example:443', headers: { 'X-Api-Key': { secret: 'KEY' } } };
    const headed = { mode: 'egress', allow: ['b.example', rule] };
    assert.deepEqual(rulesOf(headed), ['b.example', 'a.example:443']);
    assert.deepEqual(headersOf(headed), ['a.example:443: X-Api-Key']);
    assert.deepEqual(networkOf('egress', [...rulesOf(headed), 'c.example'], headed).allow, ['b.example', rule, 'c.example']);
    assert.deepEqual(networkOf('egress', ['b.example'], headed).allow, ['b.example']);
});

test('each refusal has the rule that lets it through, or none', () => {
    const denials = refused(
        denied('registry.example.com', 443),
        denied('192.0.2.7', 8080, 'ip_literal'),
        denied('2001:db8::1', 443, 'ip_literal'),
        denied('host.example', 22, 'not_tls'),
        denied('inner.example', 443, 'private_address'),
        denied('model.example', 443, 'rule'),
        denied('nowhere.example', 443, 'dns'),
        denied('other.example', 443, 'constructor'),
    );
    assert.deepEqual(
        denials.shown(egress()).map(({ rule }) => rule),
        ['registry.example.com:443', '192.0.2.7:8080', '[2001:db8::1]:443', 'host.example:22/tcp', null, null, null, null],
    );
    assert.match(denialText(denied('model.example', 443, 'rule')), /model\.example port 443: a request that its rule does not allow\.$/);
});

test('what a rule lets through by now is not shown', () => {
    const denials = refused(denied('a.example.org', 443), denied('example.org', 443), denied('a.example.org', 8443), denied('192.0.2.7', 443, 'ip_literal'));
    assert.equal(targets(denials, 'none').length, 4);
    assert.deepEqual(targets(denials, egress('*.example.org')), ['example.org:443', 'a.example.org:8443', '192.0.2.7:443']);
    assert.deepEqual(targets(denials, egress('*', 'a.example.org:8443')), ['192.0.2.7:443']);
    assert.deepEqual(targets(denials, egress('192.0.2.7:443')), ['a.example.org:443', 'example.org:443', 'a.example.org:8443']);
    assert.deepEqual(targets(denials, egress('xexample.org', '@npm', 'a.example.org:80')).length, 4);
    assert.deepEqual(targets(refused(denied('2001:db8::1', 443, 'ip_literal')), egress('[2001:db8::1]:443')), []);
    const raw = refused(denied('host.example', 22, 'not_tls'));
    assert.deepEqual(targets(raw, egress('host.example:22')), ['host.example:22']);
    assert.deepEqual(targets(raw, egress('host.example:22/tcp')), []);
});

test('repeated refusals are one with a number, the oldest go first, and a new message clears them', () => {
    const denials = refused(denied('a.example', 443), denied('a.example', 443, 'not_listed', { requests: 4 }));
    assert.match(denials.shown(egress())[0].why, /^not on the list, 5 times$/);
    for (let port = 1; port <= 60; ++port) denials.apply(denied('b.example', port));
    assert.equal(denials.shown(egress()).length, 50);
    assert.equal(denials.apply({ type: 'text_delta', data: {} }), false);
    assert.equal(denials.apply({ type: 'turn_start', data: {} }), true);
    assert.deepEqual(denials.shown(egress()), []);
    assert.equal(denials.apply({ type: 'turn_start', data: {} }), false);
});

test('what is no refusal changes nothing, and a hostile host becomes harmless text', () => {
    const denials = new Denials();
    for (const data of [null, {}, { host: 7, port: 1 }, { host: 'a', port: '443' }]) assert.equal(denials.apply({ type: 'egress_denied', data }), false);
    denials.apply(denied('\u001b[31mred\u202e', 443, '\u001b[0m'));
    const [{ target, why }] = denials.shown(egress());
    for (const text of [target, why]) assert.doesNotMatch(text, /[\u001b\u202e]/);
    assert.equal(denialText(denied('a.example', 443, 'not_listed', { requests: 2 })), 'Refused a connection to a.example port 443: not on the list, 2 times.');
    assert.equal(denialText({ type: 'egress_denied', data: {} }), null);
});
