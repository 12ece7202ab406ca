// GHSA-vc52-gwm3-8v2f
// Node modules connect without --allow-net.
await useRequire((name) => import('node:' + name));
try { await useRequire((name) => process.getBuiltinModule(name)); } catch {}
return found;
