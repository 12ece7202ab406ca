// A TCP proxy between a client and a server: cuts connections, counts them, and reports the bytes that pass.
import net from 'node:net';

const DEADLINE_MS = 60_000;

/** Forwards TCP connections to `target` ("host:port"). */
export async function startProxy(target) {
    const [host, port] = target.split(':');
    const sockets = new Set();
    const waiting = new Set();
    // Latin-1, so that a byte is a character; `opened` and `closed` are times of performance.now().
    const seen = { up: '', down: '', opened: [], closed: [] };
    let cuts = 0;
    const changed = () => {
        for (const look of waiting) look();
    };
    const allowHalfOpen = true;
    const server = net.createServer({ allowHalfOpen }, (near) => {
        seen.opened.push(performance.now());
        const far = net.connect({ host, port: Number(port), allowHalfOpen });
        for (const [socket, other] of [[near, far], [far, near]]) {
            sockets.add(socket);
            socket.setNoDelay(true);
            socket.on('error', () => {});
            socket.on('data', (bytes) => {
                seen[socket === near ? 'up' : 'down'] += bytes.toString('latin1');
                changed();
            });
            socket.on('close', (isBroken) => {
                sockets.delete(socket);
                if (socket === near) seen.closed.push(performance.now());
                // Otherwise the pipe passes the end on, after the bytes before it.
                if (isBroken) other.resetAndDestroy();
                changed();
            });
        }
        near.pipe(far).pipe(near);
        changed();
    });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    return {
        address: `127.0.0.1:${server.address().port}`,
        seen,
        /** Resolves once `holds(seen)` does; rejects, naming `what`, if that takes too long. */
        until(what, holds) {
            return new Promise((done, fail) => {
                const look = () => {
                    if (!holds(seen)) return;
                    clearTimeout(late);
                    waiting.delete(look);
                    done();
                };
                const late = setTimeout(() => {
                    waiting.delete(look);
                    fail(new Error(`the proxy never saw ${what}`));
                }, DEADLINE_MS);
                waiting.add(look);
                look();
            });
        },
        /** Resets all open connections, on both sides; returns how many sockets that were. */
        cut() {
            ++cuts;
            const count = sockets.size;
            for (const socket of sockets) socket.resetAndDestroy();
            return count;
        },
        cuts: () => cuts,
        async stop() {
            for (const socket of sockets) socket.destroy();
            await new Promise((done) => server.close(done));
        },
    };
}
