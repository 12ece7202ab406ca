// GHSA-xj72-wvfv-8985 CVE-2023-29199
// The transformer's name of a catch variable lets a host exception through.
const deep = () => { try { return deep(); } catch ($tmpname) { throw $tmpname; } };
try { deep(); } catch ($tmpname) { await useObject($tmpname); }
return found;
