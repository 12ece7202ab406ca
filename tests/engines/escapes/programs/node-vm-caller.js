// node-vm-docs
// Arguments.callee.caller reaches a function of the host.
const reach = new Array(1).fill(function () { try { return arguments.callee.caller; } catch {} });
try { await useObject(reach[0]()); } catch {}
try { const e = { get stack() { return useObject(arguments.callee.caller); }, toString() { return ''; } }; console.log(e); } catch {}
return found;
