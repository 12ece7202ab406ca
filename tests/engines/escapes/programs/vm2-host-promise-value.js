// CVE-2026-44000
// An object resolved by a promise of the host keeps its identity.
const names = Object.getOwnPropertyNames(codemode);
for (const name of names) { try { const value = await codemode[name](); await useObject(value); await useObject(codemode[name]); } catch (e) { await useObject(e); } }
await useObject(codemode);
return found;
