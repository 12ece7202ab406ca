// A tab keeps the key and the agent that was chosen last across a reload. The session storage belongs to this tab and goes with it. Where it is
// refused, the tab forgets.
const KEY = 'atoll.key';
const AGENT = 'atoll.agent';

function guarded(act, otherwise) {
    try {
        return act();
    } catch {
        return otherwise;
    }
}

/** The parts of a fragment such as `#key=…&c=ID`. */
export function readFragment(hash) {
    const parts = new URLSearchParams(hash.replace(/^#/, ''));
    return { key: parts.get('key') || null, id: parts.get('c') || null };
}

export function fragmentOf(id) {
    return id === null ? '' : `#c=${encodeURIComponent(id)}`;
}

export function loadKey() {
    return guarded(() => sessionStorage.getItem(KEY), null);
}
export function saveKey(key) {
    guarded(() => sessionStorage.setItem(KEY, key));
}
/** The agent that was chosen last; null: the server's default. */
export function loadAgent() {
    return guarded(() => sessionStorage.getItem(AGENT), null);
}
export function saveAgent(name) {
    guarded(() => (name === null ? sessionStorage.removeItem(AGENT) : sessionStorage.setItem(AGENT, name)));
}
/** Forgets everything. */
export function forget() {
    guarded(() => {
        for (const name of Object.keys(sessionStorage)) if (name.startsWith('atoll.')) sessionStorage.removeItem(name);
    });
}
