// A realm made with node:vm, as node and deno have it.
import vm from 'node:vm';

/** Compiles `script` in a new context; gives {deliver, run}. `post` gets JSON text. Throws SyntaxError. */
export function makeContext(realmText, script, post) {
    const context = vm.createContext(vm.constants.DONT_CONTEXTIFY, { codeGeneration: { strings: false, wasm: false } });
    const run = (text, filename) => new vm.Script(text, { filename }).runInContext(context);
    const deliver = run(realmText, 'realm.js')((text) => { post(text); });
    const program = run(script, 'program.js');
    return {
        deliver,
        run(text) {
            deliver(text);
            deliver('{"type":"run"}', program);
        },
    };
}
