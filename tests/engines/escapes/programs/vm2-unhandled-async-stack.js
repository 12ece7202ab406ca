// GHSA-7jxr-cg7f-gpgv CVE-2023-29017
// PrepareStackTrace is called with host objects for an unhandled async error.
let caught;
Error.prepareStackTrace = (e, frames) => { caught = frames; };
(async () => { await Promise.reject(new Error()).catch((e) => { void e.stack; }); })();
await 0; await 0; await 0;
for (const site of caught ?? []) { try { await useObject(site.constructor); await useObject(site.getThis()); } catch {} }
return found;
