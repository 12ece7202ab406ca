// Engine `isolated-vm`: an isolate with a heap of its own, on a thread of its own.
import { createRequire } from 'node:module';
import { io, versionOf } from './node_io.mjs';
import makeRealm from './realm.mjs';
import { serve } from './session.mjs';

const ivm = createRequire(import.meta.url)('../node_modules/isolated-vm');
// The most that --execute-max-memory-mb takes, so that the sandbox's limit decides: that of the run is not known yet. A low one
// also makes V8's space for young objects small: with 128 MB, programs that make much garbage took ten times as long.
const MEMORY_LIMIT_MB = 1024 * 1024;
// Made before there is a program; it serves one.
const isolate = new ivm.Isolate({ memoryLimit: MEMORY_LIMIT_MB, onCatastrophicError: () => process.abort() });
const context = await isolate.createContext();
await context.eval('delete globalThis.WebAssembly');
const begin = async (script, post, { fail }) => {
    const failed = (error) => { fail('runtime', String(error.message)); };
    const callback = new ivm.Callback((text) => { post(text); }, { ignored: true });
    const compiled = await isolate.compileScript(script, { filename: 'program.js' });
    const program = await compiled.run(context, { reference: true });
    // The callback is wrapped in the isolate; the program's reference is opened there and nowhere kept.
    const deliver = await context.evalClosure(`const make = ${makeRealm}; return make($0);`, [callback],
        { result: { reference: true }, filename: 'realm.js' });
    const send = (...values) => { deliver.apply(undefined, values).catch(failed); };
    return {
        deliver: (text) => send(text),
        run(text) {
            send(text);
            send('{"type":"run"}', program.derefInto());
        },
    };
};
serve({ engine: 'isolated-vm', version: versionOf('isolated-vm'), io, begin });
