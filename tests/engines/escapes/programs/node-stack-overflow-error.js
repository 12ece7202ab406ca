// node-vm-docs
// The RangeError of an overflow inside a host function is the host's.
const overflow = (n) => { try { overflow(n + 1); } catch (e) { held = e; } try { console.log(n); } catch (e) { held = e; } };
let held = {};
const down = () => { try { codemode.x; down(); } catch (e) { held = e; } };
down();
await useObject(held);
return found;
