// GHSA-2cm2-m3w5-gp2f
// Internal state is reached by a computed key of globalThis.
for (const key of Object.getOwnPropertyNames(globalThis)) {
    if (/INTERNAL|vm2|__/i.test(key)) { try { const state = globalThis[key]; for (const name of Reflect.ownKeys(state)) await useObject(state[name]); } catch {} }
}
return found;
