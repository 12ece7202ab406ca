// GHSA-hrqr-jv8w-v9jh
// MakeTemp with a prefix writes outside of the allowed folder.
try { note(Deno.makeTempFileSync({ prefix: '../../../..' + GOAL.secret })); } catch {}
try { await useDeno(Deno); } catch {}
return found;
