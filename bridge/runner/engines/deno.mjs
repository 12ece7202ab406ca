// Engine `deno`: a context in a process that has no permissions. deno may use no other descriptors than 0, 1 and 2.
import { makeContext } from './context.mjs';
import makeRealm from './realm.mjs';
import { serve } from './session.mjs';

const { stdin, stdout, exit, version } = Deno;
const io = {
    write(bytes) {
        for (let at = 0; at < bytes.length;) at += stdout.writeSync(bytes.subarray(at));
    },
    async read(onBytes, onEnd) {
        const buffer = new Uint8Array(65536);
        for (let count; (count = await stdin.read(buffer)) !== null;) onBytes(buffer.slice(0, count));
        onEnd();
    },
    exit: (status = 0) => exit(status),
};
const begin = (script, post) => makeContext(`(${makeRealm})`, script, post);
const session = serve({ engine: 'deno', version: version.deno, io, begin });
globalThis.addEventListener('unhandledrejection', (event) => {
    event.preventDefault();
    let text = 'a promise was rejected and nobody handled it';
    try { text += `: ${event.reason?.message ?? event.reason}`; } catch { /* a hostile reason */ }
    session.fail('runtime', text);
});
