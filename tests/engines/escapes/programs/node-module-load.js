// CVE-2023-32002
// Module._load bypasses the policy of modules.
try { await useRequire((name) => process.mainModule.constructor._load(name)); } catch {}
try { await useRequire((name) => module.constructor._load(name)); } catch {}
return found;
