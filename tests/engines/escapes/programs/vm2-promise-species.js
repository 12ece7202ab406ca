// GHSA-cchq-frgv-rjh5 CVE-2023-37466
// The species of a promise bypasses the cleaning of a handler's argument.
const failing = async () => { const e = new Error(); e.name = Symbol(); return e.stack; };
const promise = failing();
let seen;
promise.constructor = { [Symbol.species]: class { constructor(executor) { executor(() => {}, (e) => { seen = e; }); } } };
try { promise.then(); } catch {}
await 0; await 0;
if (seen) await useObject(seen);
return found;
