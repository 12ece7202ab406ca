// GHSA-v98v-ff95-f3cp
// A key as a template, whole or in parts.
try { await useFunction((() => 0)[`constructor`]); } catch {}
try { await useFunction({}[`const${'ructor'}`][`constructor`]); } catch {}
try { await useFunction((async () => 0)[String.raw`constructor`]); } catch {}
try { await useProcess(this[`constructor`][`constructor`]`return process`()); } catch {}
return found;
