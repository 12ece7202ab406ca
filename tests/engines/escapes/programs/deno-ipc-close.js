// GHSA-6q4w-9x56-rmwq
// Op_node_ipc_pipe closes any descriptor.
try { const core = Deno[Deno.internal].core; for (const fd of [0, 1, 3, 4]) { try { core.ops.op_node_ipc_pipe(fd); } catch {} } await useDeno(Deno); } catch {}
return found;
