// GHSA-9vg3-4rfj-wgcm CVE-2026-44009
// A thrown object without a prototype is taken for one of the host.
const thrown = Object.create(null);
let seen = {};
try { throw thrown; } catch (e) { e.self = Reflect; seen = e; }
try { seen.f = (x) => x; await useObject(thrown.f); await useObject(Object.getPrototypeOf(seen) ?? {}); } catch {}
return found;
