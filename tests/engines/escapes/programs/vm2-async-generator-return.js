// CVE-2026-45411
// Yield* in an async generator catches an exception of the host.
const error = new Error();
error.name = Symbol();
async function* inner() { try { yield 1; } finally { void 0; } }
async function* outer() { yield* inner(); }
const generator = outer();
try { await generator.next(); await generator.return({ get then() { return (done) => { done(); void error.stack; }; } }); } catch (e) { await useObject(e); }
return found;
