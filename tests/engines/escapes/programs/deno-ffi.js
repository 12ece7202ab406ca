// GHSA-838h-jqp6-cf2f CVE-2022-24783
// Operations of FFI miss the check of permissions.
try { const library = Deno.dlopen('libc.so.6', { getenv: { parameters: ['buffer'], result: 'pointer' } }); const at = library.symbols.getenv(new TextEncoder().encode(GOAL.canary + '\0')); note(new Deno.UnsafePointerView(at).getCString()); } catch {}
return found;
