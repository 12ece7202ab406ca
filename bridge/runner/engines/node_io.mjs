// fd 0 and 1 of node: one socket, which node makes non-blocking.
import { writeSync, readFileSync } from 'node:fs';
import { Socket } from 'node:net';

const wait = new Int32Array(new SharedArrayBuffer(4));

export const io = {
    write(bytes) {
        for (let at = 0; at < bytes.length;) {
            try {
                at += writeSync(1, bytes, at);
            } catch (error) {
                if (error.code !== 'EAGAIN') process.exit(1);
                Atomics.wait(wait, 0, 0, 1);
            }
        }
    },
    read(onBytes, onEnd) {
        const socket = new Socket({ fd: 0, readable: true, writable: false });
        socket.on('data', onBytes).on('end', onEnd).on('error', onEnd);
    },
    exit: (status = 0) => process.exit(status),
};

/** The version of an installed package. */
export const versionOf = (name) =>
    JSON.parse(readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), 'utf8')).version;
