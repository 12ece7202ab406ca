// CVE-2026-1470
// The bare name of a constructor, which `with` makes a property of a function.
with (function () {}) { await useFunction(constructor); }
return found;
