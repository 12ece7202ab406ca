// CVE-2023-32006
// Module.constructor.createRequire bypasses the policy.
try { await useRequire(module.constructor.createRequire('/')); } catch {}
try { await useRequire(process.mainModule.constructor.createRequire('/')); } catch {}
return found;
