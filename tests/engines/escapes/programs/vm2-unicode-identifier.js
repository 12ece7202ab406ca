// GHSA-wp5r-2gw5-m7q7
// An escaped identifier names the internal state.
try { await useObject(\u0056M2_INTERNAL_STATE_DO_NOT_USE_OR_PROGRAM_WILL_FAIL); } catch {}
try { for (const value of Object.values(\u0056M2_INTERNAL_STATE_DO_NOT_USE_OR_PROGRAM_WILL_FAIL)) await useObject(value); } catch {}
return found;
