// An engine that is broken on purpose, in the place of each of ours: the program has the host's own objects, and what else the
// executable may do. On node it runs in a plain context of node:vm, where published escapes work.
const isDeno = typeof Deno !== 'undefined';
const engine = /([^/]+)\.mjs$/.exec(import.meta.url)[1];
const { io } = isDeno ? { io: denoIo() } : await import('./node_io.mjs');

function denoIo() {
    return {
        write: (bytes) => Deno.stdout.writeSync(bytes),
        async read(onBytes) {
            const buffer = new Uint8Array(65536);
            for (let count; (count = await Deno.stdin.read(buffer)) !== null;) onBytes(buffer.slice(0, count));
        },
        exit: (status) => Deno.exit(status),
    };
}

function send(message) {
    const body = new TextEncoder().encode(JSON.stringify(message));
    const frame = new Uint8Array(4 + body.length);
    new DataView(frame.buffer).setUint32(0, body.length);
    frame.set(body, 4);
    io.write(frame);
}

async function evaluate(code) {
    const text = `(async function (host) {\n${code}\n})`;
    if (isDeno) return (0, eval)(text)({ Deno });
    const { createContext, runInContext } = await import('node:vm');
    return runInContext(text, createContext({ console, setTimeout, TextEncoder }))({ process });
}

let pending = new Uint8Array(0);
io.read((bytes) => {
    pending = new Uint8Array([...pending, ...bytes]);
    if (pending.length < 4) return;
    const length = new DataView(pending.buffer).getUint32(0);
    if (pending.length < 4 + length) return;
    const { run, nonce, code } = JSON.parse(new TextDecoder().decode(pending.subarray(4, 4 + length)));
    evaluate(code).then((value) => ({ value }), (error) => ({ error: { kind: 'runtime', message: String(error) } }))
        .then((end) => {
            send({ type: 'result', run, nonce, ...end });
            io.exit(0);
        });
}, () => io.exit(1));
send({ type: 'ready', engine, version: '0' });
