// worker-threads-docs
// A worker sees the environment and the loader of its process.
try { await useProcess(process); } catch {}
try { await useRequire(require); } catch {}
try { const { parentPort, workerData } = require('worker_threads'); note(JSON.stringify(workerData)); await useObject(parentPort); } catch {}
return found;
