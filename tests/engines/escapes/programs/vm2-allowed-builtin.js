// GHSA-947f-4v7f-x2v8
// An allowed builtin hands out the others.
for (const name of ['module', 'node:module', 'worker_threads', 'events', 'util', 'vm', 'repl']) {
    try { const mod = require(name); await useObject(mod); if (mod.createRequire) await useRequire(mod.createRequire('/')); } catch {}
}
return found;
