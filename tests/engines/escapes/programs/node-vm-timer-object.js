// node-vm-docs
// The object that setTimeout returns belongs to the host.
for (const f of [globalThis.setTimeout, globalThis.setImmediate, globalThis.queueMicrotask]) { try { await useObject(f(() => {}, 0)); await useObject(f); } catch {} }
return found;
