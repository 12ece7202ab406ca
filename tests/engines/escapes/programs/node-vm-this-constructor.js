// node-vm-docs
// The constructor of the global object is the host's.
await useObject(this ?? globalThis);
await useObject(globalThis);
return found;
