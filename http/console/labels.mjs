// The words for the states of a conversation. Pure.
import { harmless } from './ansi.mjs';

const REASONS = {
    user: 'by you',
    idle: 'idle',
    oom: 'out of memory',
    disk: 'disk full',
    crash: 'crashed',
    evicted: 'evicted',
    server_restart: 'server restarted',
    ttl: 'its time is over',
};
const TONES = { starting: '', active: 'good', paused: 'warn', ended: '', error: 'bad' };

/** A name for people: the title that was given, else the agent and the beginning of the id. */
export function nameOf(conversation) {
    const { title } = conversation;
    if (typeof title === 'string' && title.trim() !== '') return harmless(title.replace(/\s+/g, ' ').trim().slice(0, 120));
    return `${harmless(conversation.agent)} ${conversation.id.slice(0, 6)}`;
}

/** The conversations whose names have all words of `search`; whose id is it, too. */
export function matching(conversations, search) {
    const words = search.toLowerCase().split(/\s+/).filter((word) => word !== '');
    return conversations.filter((one) => words.every((word) => nameOf(one).toLowerCase().includes(word) || one.id === word));
}

/** {text, tone} of the state. */
export function statusOf({ status, statusReason, sandboxStatus }) {
    const reason = statusReason === null ? '' : ` · ${REASONS[statusReason] ?? harmless(statusReason)}`;
    const word = status === 'paused' && sandboxStatus === 'frozen' ? 'frozen' : harmless(status);
    return { text: `${word}${reason}`, tone: TONES[status] ?? '' };
}

const WEAK = { network: ['host'], uid: ['shared'], disk: ['check'] };
const isWeak = (name, value) => value === 'none' || (WEAK[name]?.includes(value) ?? false);

/** The facts that hold for every sandbox of the server, to be said once: {text, detail}. `notEnforced`: name -> why. */
export function serverLineOf({ version, notEnforced = {} }) {
    const names = Object.keys(notEnforced);
    const others = names.filter((name) => name !== 'disk').map((name) => harmless(name));
    const sentences = [`Atoll ${harmless(version)}.`];
    if (names.includes('disk')) sentences.push('Disk is measured, not walled.');
    if (others.length > 0) sentences.push(`Not enforced here: ${others.join(', ')}.`);
    return { text: sentences.join(' '), detail: names.map((name) => harmless(`${name}: ${notEnforced[name]}`)).join('\n') };
}

/**
 * The means that enforce each limit, and the gaps: {summary, tone, facts: [{name, value, warning}]}. `notEnforced` is the
 * server's own sum, name -> why: a limit that it names is never shown as good. A weaker means that it names is said in the
 * server's line and among the facts, not again in each summary.
 */
export function enforcementOf(enforcement, notEnforced = {}) {
    const facts = Object.entries(enforcement).map(([name, value]) => ({
        name: harmless(name),
        value: harmless(value),
        warning: isWeak(name, value),
    }));
    for (const [name, why] of Object.entries(notEnforced)) {
        const fact = facts.find((other) => other.name === harmless(name));
        // A workspace may have what others on this host lack.
        if (fact && !fact.warning) continue;
        if (fact) fact.value = `${fact.value} (${harmless(why)})`;
        else facts.push({ name: harmless(name), value: `none (${harmless(why)})`, warning: true });
    }
    const values = new Map(Object.entries(enforcement).map(([name, value]) => [harmless(name), value]));
    const none = facts.filter((fact) => fact.warning && (values.get(fact.name) ?? 'none') === 'none').map((fact) => fact.name);
    const isSaid = ({ name }) => Object.keys(notEnforced).some((said) => harmless(said) === name);
    const rest = facts.filter((fact) => fact.warning && !none.includes(fact.name) && !isSaid(fact)).map((fact) => `${fact.name}: ${harmless(values.get(fact.name))}`);
    const words = [];
    if (none.length > 0) words.push(`not enforced here: ${none.join(', ')}`);
    if (rest.length > 0) words.push(`weaker here: ${rest.join(', ')}`);
    if (words.length === 0 && facts.some(({ warning }) => warning)) return { summary: 'Isolated', tone: '', facts };
    if (words.length === 0) return { summary: 'Isolated, all limits enforced', tone: 'good', facts };
    return { summary: `Isolated, but ${words.join('; ')}`, tone: 'warn', facts };
}

/** The limits of a sandbox as [label, value]: `{memoryMb: 512}` is `[['memory limit', '512 MB']]`. */
export function limitsOf(limits) {
    const units = { Mb: ' MB', Percent: ' %' };
    return Object.entries(limits).map(([name, value]) => {
        const [, what, unit] = /^(?:max)?(.+?)(Mb|Percent)?$/.exec(name);
        const words = what.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).trim();
        return [`${words} limit`, `${value}${units[unit] ?? ''}`];
    });
}

/** The actions that the composer and the buttons allow. */
export function actionsOf(conversation, turnOpen) {
    const { status } = conversation;
    return {
        // A message during a turn waits for its end.
        send: status !== 'ended',
        stop: turnOpen,
        pause: status === 'active',
        freeze: status === 'active' && !turnOpen,
        resume: status === 'paused' || status === 'error',
    };
}

/** "just now", "5 min ago", "3 h ago", or a date. */
export function ago(time, now) {
    const seconds = (now - Date.parse(time)) / 1000;
    if (!Number.isFinite(seconds)) return '';
    if (seconds < 60) return 'just now';
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
    return new Date(time).toLocaleDateString();
}

/** The connection's state in words for people: {text, tone}. */
export function connectionOf({ name, detail = '' }, transport) {
    switch (name) {
        case 'live':
            return { text: transport === 'websocket' ? 'live · WebSocket' : 'live', tone: 'good' };
        case 'connecting':
            return { text: 'connecting…', tone: '' };
        case 'waiting':
            return { text: 'reconnecting…', tone: 'warn' };
        default:
            return { text: detail === '' ? 'disconnected' : `disconnected: ${harmless(detail)}`, tone: 'bad' };
    }
}
