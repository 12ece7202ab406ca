// GHSA-mpf8-4hx2-7cjg
// A rejection callback of a promise of the host gets its raw value.
let promise;
try { promise = codemode.missing_tool_for_rejection(); } catch (e) { await useObject(e); }
try { await promise?.then(undefined, (e) => useObject(e)); } catch (e) { await useObject(e); }
return found;
