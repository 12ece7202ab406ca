// Engine `container`: node, with the program in a worker thread, so that one that never yields keeps not this thread.
import { Worker, isMainThread, parentPort } from 'node:worker_threads';

if (isMainThread) {
    const { io } = await import('./node_io.mjs');
    const { serve } = await import('./session.mjs');
    // Started before there is a program: that takes the longest.
    const worker = new Worker(new URL(import.meta.url), {
        env: {}, stdin: false, stdout: true, stderr: true, execArgv: ['--frozen-intrinsics', '--no-warnings'],
    });
    const begin = (script, post, { fail }) => {
        const compiled = new Promise((done, failed) => {
            worker.on('message', (message) => {
                if (message.post !== undefined) post(message.post);
                else if (message.compiled) done();
                else if (message.unhandled) fail('runtime', message.unhandled);
                else failed(Object.assign(new SyntaxError(message.syntax), { stack: message.stack }));
            });
        });
        worker.on('error', (error) => {
            fail(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'runtime', String(error.message));
        });
        worker.on('exit', () => fail('runtime', 'the worker of the program has ended'));
        worker.postMessage({ script });
        return compiled.then(() => ({
            deliver: (text) => worker.postMessage({ deliver: text }),
            run: (text) => worker.postMessage({ run: text }),
        }));
    };
    serve({ engine: 'container', version: process.versions.node, io, begin });
} else {
    const { default: makeRealm } = await import('./realm.mjs');
    const { freezeHostErrors, makeContext } = await import('./context.mjs');
    await freezeHostErrors();
    process.on('unhandledRejection', (reason) => {
        let text = 'a promise was rejected and nobody handled it';
        try { text += `: ${reason?.message ?? reason}`; } catch { /* a hostile reason */ }
        parentPort.postMessage({ unhandled: text });
    });
    parentPort.once('message', ({ script }) => {
        try {
            const post = (text) => parentPort.postMessage({ post: text });
            const realm = makeContext(`(${makeRealm})`, script, post);
            parentPort.on('message', ({ run, deliver }) => (run === undefined ? realm.deliver(deliver) : realm.run(run)));
            parentPort.postMessage({ compiled: true });
        } catch (error) {
            parentPort.postMessage({ syntax: String(error.message), stack: String(error.stack) });
        }
    });
}
