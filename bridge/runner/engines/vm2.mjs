// Engine `vm2`: a compatibility target, no boundary.
import { createRequire } from 'node:module';
import { io, versionOf } from './node_io.mjs';
import makeRealm from './realm.mjs';
import { serve } from './session.mjs';

const { VM, VMScript } = createRequire(import.meta.url)('../node_modules/vm2');
// Made before there is a program; it serves one.
const vm = new VM({ eval: false, wasm: false, sandbox: {} });
const realm = vm.run(new VMScript(`(${makeRealm})`, 'realm.js'));
const begin = (script, post) => {
    const deliver = realm((text) => { post(text); }, (target, handler) => new Proxy(target, handler));
    const program = vm.run(new VMScript(`((Proxy) => ${script})`, 'program.js'));
    return {
        deliver,
        run(text) {
            deliver(text);
            deliver('{"type":"run"}', program);
        },
    };
};
const session = serve({ engine: 'vm2', version: versionOf('vm2'), io, begin });
process.on('unhandledRejection', (reason) => {
    let text = 'a promise was rejected and nobody handled it';
    try { text += `: ${reason?.message ?? reason}`; } catch { /* a hostile reason */ }
    session.fail('runtime', text);
});
