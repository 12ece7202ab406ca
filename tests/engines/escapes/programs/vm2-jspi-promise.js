// CVE-2026-47210
// Promises of WebAssembly.promising have the prototype of the host.
try {
    const bytes = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 102, 0, 0, 10, 5, 1, 3, 0, 0, 11);
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
    const promise = WebAssembly.promising(exports.f)();
    await useObject(Object.getPrototypeOf(promise));
    await promise.finally(() => {}).catch((e) => useObject(e));
} catch {}
return found;
