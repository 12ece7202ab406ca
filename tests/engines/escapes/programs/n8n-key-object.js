// CVE-2026-25049
// Keys that a check of names does not see: of a pattern, and of an object that becomes text.
const base = () => 0;
try { const { constructor: make } = base; await useFunction(make); } catch {}
try { const { ['const' + 'ructor']: make } = base; await useFunction(make); } catch {}
let asked = 0;
const key = { toString: () => (asked++ ? 'constructor' : 'name') };
try { void base[key]; await useFunction(base[key]); } catch {}
try { await useFunction(base[['constructor']]); } catch {}
return found;
