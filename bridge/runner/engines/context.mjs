// A realm made with node:vm, as node and deno have it.
import vm from 'node:vm';

/**
 * Freezes the classes of errors that node itself makes of what a program does: such an error comes from the host's realm.
 * The intrinsics of that realm are frozen by node's own --frozen-intrinsics.
 */
export async function freezeHostErrors() {
    const context = vm.createContext(vm.constants.DONT_CONTEXTIFY);
    for (const text of ["import('x')", "import('x', { with: { type: 'json' } })", "import('x', { with: { a: 'b' } })"]) {
        const error = await new vm.Script(text).runInContext(context).catch((thrown) => thrown);
        for (let at = Object.getPrototypeOf(error); at !== null; at = Object.getPrototypeOf(at)) {
            Object.freeze(at);
            Object.freeze(Object.getOwnPropertyDescriptor(at, 'constructor')?.value);
        }
    }
}

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
