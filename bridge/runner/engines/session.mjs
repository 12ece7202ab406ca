// The runner's half of the protocol (../README.md): frames, run id and nonce, timers. An engine gives it `begin`.
import { prepare, SourceError } from './source.mjs';

const MAX_FRAME = 4 * 1024 * 1024;
const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

/** JSON text as UTF-8. Half of a surrogate pair, which UTF-8 cannot hold and JSON.stringify escapes, becomes U+FFFD. */
function encoded(message) {
    const text = JSON.stringify(message);
    if (!text.includes('\\ud')) return encoder.encode(text);
    return encoder.encode(text.replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (escape) => (escape === '\\\\' ? escape : '\ufffd')));
}

/**
 * `io.write(bytes)` sends all of them; `io.read(onBytes, onEnd)` begins to read; `io.exit()` ends the process.
 * `begin(script, post, limits)` makes a realm and gives {deliver(text), run(text)}, at once or as a promise; it throws
 * SourceError. A frame of the host that is not what the protocol allows then ends the process with status 1.
 */
export function serve({ engine, version, io, begin }) {
    let run, nonce, realm, ended = false;
    let pending = new Uint8Array(0);
    const calls = new Set();
    function write(message) {
        const body = encoded(message);
        if (body.length > MAX_FRAME) return false;
        const frame = new Uint8Array(4 + body.length);
        new DataView(frame.buffer).setUint32(0, body.length);
        frame.set(body, 4);
        io.write(frame);
        return true;
    }
    function post(message) {
        if (ended) return;
        if (message.type === 'timer') {
            setTimeout(() => deliver({ type: 'timer', id: message.id }), Math.min(message.ms, 0x7fffffff));
            return;
        }
        if (!['log', 'call', 'result'].includes(message.type)) return;
        if (message.type === 'call') calls.add(message.id);
        ended = message.type === 'result';
        if (!write({ ...message, run, nonce })) {
            ended = true;
            write({ type: 'result', error: { kind: 'protocol', message: 'a frame would be longer than 4 MiB' }, run, nonce });
        }
        if (ended) io.exit();
    }
    const fail = (kind, message, line) => post({ type: 'result', error: { kind, message, line } });
    const deliver = (message) => {
        if (!ended) realm.deliver(JSON.stringify(message));
    };
    async function start(message) {
        run = message.run;
        nonce = message.nonce;
        try {
            const script = await prepare(message.code, message.language);
            realm = await begin(script, (text) => post(JSON.parse(text)), { limits: message.limits, fail, deliver });
            await realm.run(JSON.stringify({ type: 'start', tools: message.tools, limits: message.limits }));
        } catch (error) {
            if (error instanceof SourceError) fail('syntax', error.message, error.line);
            else if (error instanceof SyntaxError) {
                const line = /program\.js:(\d+)/.exec(String(error.stack));
                fail('syntax', `SyntaxError: ${error.message}`, line ? Number(line[1]) : undefined);
            } else fail('runtime', String(error?.message ?? error));
        }
    }
    function receive(message) {
        if (run === undefined && isStart(message)) {
            start(message);
        } else if (isAnswer(message) && message.run === run && message.nonce === nonce && calls.delete(message.id)) {
            deliver(message);
        } else {
            io.exit(1);
        }
    }
    io.read((bytes) => {
        const all = new Uint8Array(pending.length + bytes.length);
        all.set(pending);
        all.set(bytes, pending.length);
        pending = all;
        while (pending.length >= 4) {
            const length = new DataView(pending.buffer, pending.byteOffset).getUint32(0);
            if (length > MAX_FRAME) return io.exit(1);
            if (pending.length < 4 + length) return;
            let message;
            try {
                message = JSON.parse(decoder.decode(pending.subarray(4, 4 + length)));
            } catch {
                return io.exit(1);
            }
            pending = pending.slice(4 + length);
            receive(message);
        }
    }, () => io.exit(1));
    write({ type: 'ready', engine, version });
    return { fail };
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value) => typeof value === 'string' && value !== '';
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

function isStart(message) {
    if (!isObject(message) || message.type !== 'start') return false;
    const { run, nonce, code, language, tools, limits } = message;
    return isText(run) && isText(nonce) && typeof code === 'string' && ['javascript', 'typescript'].includes(language) &&
        Array.isArray(tools) && tools.every(isText) && isObject(limits) &&
        ['maxCalls', 'maxValueBytes', 'maxLogBytes'].every((name) => isCount(limits[name]));
}

function isAnswer(message) {
    if (!isObject(message) || message.type !== 'call_result') return false;
    return message.error === undefined || (isObject(message.error) && typeof message.error.message === 'string');
}
