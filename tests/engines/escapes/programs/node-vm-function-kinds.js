// node-vm-docs
// The four kinds of Function constructors make code of the outer realm.
for (const f of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    try { let made = f.constructor('return typeof process === "object" ? process : undefined')(); made = made.next ? (await made.next()).value : await made; await useProcess(made); } catch {}
}
return found;
