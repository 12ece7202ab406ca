// Put before each program of the corpus, after a line `const GOAL = {secret, canary, port, token}`. A program that reaches
// something of the host hands it to one of these; what they read comes back in `found`, where the harness looks for it.
const found = [];
const note = (value) => { if (value !== undefined) found.push(String(value)); };
async function useRequire(load) {
    try { note((await load('fs')).readFileSync(GOAL.secret, 'utf8')); } catch {}
    try {
        const net = await load('net');
        await new Promise((done) => {
            const socket = net.connect(GOAL.port, '127.0.0.1', () => socket.end(GOAL.token, done));
            socket.on('error', done);
        });
    } catch {}
}
async function useProcess(host) {
    try { note(host.env[GOAL.canary]); } catch {}
    try {
        const load = host.getBuiltinModule ? (name) => host.getBuiltinModule(name) : host.mainModule.require;
        await useRequire(load);
    } catch {}
}
async function useFunction(make) {
    try { await useProcess(make('return process')()); } catch {}
}
async function useObject(object) {
    try { await useFunction(object.constructor.constructor); } catch {}
    try { await useFunction(object.constructor); } catch {}
}
async function useDeno(deno) {
    try { note(deno.env.get(GOAL.canary)); } catch {}
    try { note(deno.readTextFileSync(GOAL.secret)); } catch {}
    try {
        const socket = await deno.connect({ hostname: '127.0.0.1', port: GOAL.port });
        await socket.write(new TextEncoder().encode(GOAL.token));
        socket.close();
    } catch {}
}
