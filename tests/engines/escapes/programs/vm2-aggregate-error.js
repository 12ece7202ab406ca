// GHSA-55hx-c926-fr95
// AggregateError and SuppressedError carry an uncleaned error.
const fail = async () => { const e = new Error(); e.name = Symbol(); return e.stack; };
try { await Promise.any([fail()]); } catch (e) { await useObject(e); for (const inner of e.errors ?? []) await useObject(inner); }
return found;
