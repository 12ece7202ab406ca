// node-vm-docs
// An import in the second argument of another, and what node's own error of it leads to.
let inner;
try { await import('x', inner = import('node:fs')); } catch {}
try { note((await inner).readFileSync(GOAL.secret, 'utf8')); } catch (error) {
    await useObject(error);
    let top = error;
    while (Object.getPrototypeOf(top)) top = Object.getPrototypeOf(top);
    let host;
    const names = ['domain', '_exiting', 'noDeprecation', 'throwDeprecation', 'traceDeprecation', '_events', 'env', 'exitCode'];
    for (const name of names) {
        try {
            top.constructor.defineProperty(top, name, { configurable: true, get() { 'use strict'; if (this?.versions) host = this; } });
        } catch {}
    }
    await new Promise((done) => { setTimeout(done, 1); });
    if (host) await useProcess(host);
    for (const name of names) { try { delete top[name]; } catch {} }
}
return found;
