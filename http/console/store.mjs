// What a tab keeps across a reload: the key, and what was asked in which turn (the log holds answers only). The session
// storage belongs to this tab and goes with it. Where it is refused, the tab forgets.
const KEY = 'atoll.key';
const PROMPTS = 'atoll.prompts.';
const MAX_PROMPTS = 200; // of a conversation
const MAX_PROMPT = 4000; // characters

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
/** Forgets everything. */
export function forget() {
    guarded(() => {
        for (const name of Object.keys(sessionStorage)) if (name.startsWith('atoll.')) sessionStorage.removeItem(name);
    });
}

/** [turn, text] pairs, oldest first. */
export function loadPrompts(id) {
    const pairs = guarded(() => JSON.parse(sessionStorage.getItem(PROMPTS + id) ?? '[]'), []);
    return Array.isArray(pairs) ? pairs : [];
}
export function savePrompt(id, turn, text) {
    const shown = text.length > MAX_PROMPT ? `${text.slice(0, MAX_PROMPT)}…` : text;
    const pairs = [...loadPrompts(id), [turn, shown]].slice(-MAX_PROMPTS);
    guarded(() => sessionStorage.setItem(PROMPTS + id, JSON.stringify(pairs)));
}
export function forgetPrompts(id) {
    guarded(() => sessionStorage.removeItem(PROMPTS + id));
}
