// The network of a sandbox: its rules, and the requests that they refused. Pure.
import { harmless } from './ansi.mjs';

export const MODES = {
    none: 'none: its own loopback',
    host: "host: the host's network, with its loopback",
    egress: 'egress: the hosts of a list',
};

const REASONS = {
    not_listed: 'not on the list',
    ip_literal: 'an address that is not on the list',
    private_address: 'a private address: the operator opens it with --egress-private',
    dns: 'its name was not found',
    sni_mismatch: 'TLS for another name',
    not_tls: 'bytes that are no TLS',
    limit: 'too many requests',
    rule: 'a request that its rule does not allow',
};
const MAX_DENIALS = 50;
const DEFAULT_PORTS = [80, 443];

/** `network` of a conversation is a word, or an object with one. */
export function modeOf(network) {
    return typeof network === 'string' ? network : network.mode;
}

const entriesOf = (network) => (typeof network === 'string' ? [] : (network.allow ?? []));
const textOf = (entry) => (typeof entry === 'string' ? entry : entry.host);

/** The rules as texts: of one that sets headers, its host. */
export function rulesOf(network) {
    return entriesOf(network).map(textOf);
}

/** The hosts whose rules set headers, and the names of these, as lines for people. */
export function headersOf(network) {
    return entriesOf(network)
        .filter((entry) => typeof entry !== 'string')
        .map(({ host, headers }) => `${host}: ${Object.keys(headers).join(', ') || 'no header'}`);
}

/** The rules in a text, which are apart by spaces, commas or lines. */
export function readRules(text) {
    return text.split(/[\s,]+/).filter((rule) => rule !== '');
}

/** True if somebody is asked about hosts that are not listed. */
export function asksOf(network) {
    return typeof network === 'object' && network.ask === true;
}

/**
 * The member `network` of a request. It replaces the network as a whole: members of `before` that a form does not show are kept, and so is what
 * a rule of `allow` sets.
 */
export function networkOf(mode, allow, before = {}) {
    if (mode !== 'egress') return mode;
    const kept = new Map(entriesOf(before).map((entry) => [textOf(entry), entry]));
    return { ...(modeOf(before) === 'egress' ? before : {}), mode, allow: allow.map((rule) => kept.get(rule) ?? rule) };
}

// HOST, HOST:PORT, HOST:PORT/tcp or [v6]:PORT.
function matches(rule, { host, port, anyBytes }) {
    const [, name, , ports] = /^(\[[^\]]*\]|[^:/]*)(:(\d+))?(?:\/tcp)?$/.exec(rule) ?? [];
    if (name === undefined || (anyBytes && !rule.endsWith('/tcp'))) return false;
    if (!(ports === undefined ? DEFAULT_PORTS : [Number(ports)]).includes(port)) return false;
    const isLiteral = /^[\d.]+$|:/.test(host);
    if (name === '*') return !isLiteral;
    if (name.startsWith('*.')) return host.endsWith(name.slice(1));
    return name === host || name === `[${host}]`;
}

/** The rule that lets a refused request through; null: no rule does. */
function ruleFor({ host, port, reason }) {
    if (!['not_listed', 'ip_literal', 'not_tls'].includes(reason)) return null;
    return `${host.includes(':') ? `[${host}]` : host}:${port}${reason === 'not_tls' ? '/tcp' : ''}`;
}

/** {host, port, reason, requests} of an event `egress_denied`, or null if it is none. */
function denialOf({ type, data }) {
    const { host, port, reason, requests } = data ?? {};
    if (type !== 'egress_denied' || typeof host !== 'string' || !Number.isInteger(port)) return null;
    return {
        host: harmless(host.replace(/^\[|\]$/g, '').slice(0, 255)),
        port,
        reason: typeof reason === 'string' ? harmless(reason.slice(0, 80)) : 'for no reason that is known',
        requests: Number.isInteger(requests) ? requests : 1,
    };
}

function wordsOf(reason) {
    return Object.hasOwn(REASONS, reason) ? REASONS[reason] : reason;
}

const timesOf = (requests) => (requests > 1 ? `, ${requests} times` : '');

/** A line for the transcript, or null. */
export function denialText(event) {
    const denial = denialOf(event);
    if (denial === null) return null;
    return `Refused a connection to ${denial.host} port ${denial.port}: ${wordsOf(denial.reason)}${timesOf(denial.requests)}.`;
}

/** The requests that were refused since the last message. */
export class Denials {
    #all = new Map();

    /** True if the event changed something. */
    apply(event) {
        if (event.type === 'turn_start' && this.#all.size > 0) {
            this.#all.clear();
            return true;
        }
        const denial = denialOf(event);
        if (denial === null) return false;
        const key = `${denial.host} ${denial.port} ${denial.reason}`;
        const requests = (this.#all.get(key)?.requests ?? 0) + denial.requests;
        this.#all.set(key, { ...denial, key, requests, rule: ruleFor(denial) });
        if (this.#all.size > MAX_DENIALS) this.#all.delete(this.#all.keys().next().value);
        return true;
    }

    /**
     * Gives the requests that no rule of `network` lets through by now, as {key, target, why, rule}: `rule` would, and is null where none does.
     * The hosts of the operator's groups are not known here.
     */
    shown(network) {
        const rules = rulesOf(network);
        const isListed = ({ host, port, reason }) => rules.some((rule) => matches(rule, { host, port, anyBytes: reason === 'not_tls' }));
        return [...this.#all.values()]
            .filter((denial) => denial.rule === null || !isListed(denial))
            .map(({ key, host, port, reason, requests, rule }) => ({ key, target: `${host}:${port}`, why: `${wordsOf(reason)}${timesOf(requests)}`, rule }));
    }
}
