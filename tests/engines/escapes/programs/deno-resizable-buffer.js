// GHSA-c25x-cm9x-qqgx
// A resizable ArrayBuffer shrinks while an async operation uses it.
try { const buffer = new ArrayBuffer(64, { maxByteLength: 4096 }); const view = new Uint8Array(buffer); const reading = Deno.stdin.read(view); buffer.resize(0); void reading.catch(() => {}); } catch {}
try { await useDeno(Deno); } catch {}
return found;
