// CVE-2026-22709
// Async functions give promises whose then and catch are not wrapped.
const error = new Error();
error.name = Symbol();
await (async () => error.stack)().catch((e) => useObject(e));
return found;
