// node-vm-docs
// Console and its methods belong to the host.
await useObject(console);
await useObject(console.log);
for (const key of Reflect.ownKeys(console)) { try { await useObject(console[key]); } catch {} }
return found;
