// The program's realm: evaluated there before the program, on every engine, as `(post) => deliver`. Both carry JSON
// text only (`post` and `deliver`), so that no object of the runner's realm is ever seen by the program. It takes the
// primordials it uses, builds console, timers and codemode, and then hardens the realm. The runner takes the text of the
// functions (a file could not be read in deno): they may refer to nothing outside themselves, but to `makeConsole` here.
import makeConsole from './console.mjs';

function makeRealm(post, makeProxy) {
    'use strict';
    const G = globalThis;
    // vm2 takes Proxy away: its runner lends a maker of proxies.
    const NativeProxy = G.Proxy;
    const AnyProxy = NativeProxy ?? function Proxy(target, handler) { return makeProxy(target, handler); };
    const uncurry = Function.prototype.bind.bind(Function.prototype.call);
    const { defineProperty, getOwnPropertyDescriptor, getOwnPropertyNames, getPrototypeOf } = Object;
    const { freeze, create, keys, preventExtensions } = Object;
    const { ownKeys, apply } = Reflect;
    const { isArray } = Array;
    const { stringify, parse } = JSON;
    const { isFinite } = Number;
    const P = Promise, E = Error, TE = TypeError, M = Map, S = Set, U8 = Uint8Array;
    const str = String, BI = BigInt, D = Date, nan = NaN, inf = Infinity;
    const then = uncurry(P.prototype.then);
    const mapGet = uncurry(M.prototype.get), mapSet = uncurry(M.prototype.set), mapDelete = uncurry(M.prototype.delete);
    const mapHas = uncurry(M.prototype.has), mapEach = uncurry(M.prototype.forEach), setEach = uncurry(S.prototype.forEach);
    const setHas = uncurry(S.prototype.has), setAdd = uncurry(S.prototype.add), setDelete = uncurry(S.prototype.delete);
    const iso = uncurry(D.prototype.toISOString), time = uncurry(D.prototype.getTime);
    const has = uncurry(Object.prototype.hasOwnProperty);
    const bufferOf = uncurry(getOwnPropertyDescriptor(getPrototypeOf(U8.prototype), 'buffer').get);
    const offsetOf = uncurry(getOwnPropertyDescriptor(getPrototypeOf(U8.prototype), 'byteOffset').get);
    const bytesOf = uncurry(getOwnPropertyDescriptor(getPrototypeOf(U8.prototype), 'byteLength').get);
    const isView = ArrayBuffer.isView, AB = ArrayBuffer;
    const abLength = uncurry(getOwnPropertyDescriptor(AB.prototype, 'byteLength').get);
    const viewLength = uncurry(getOwnPropertyDescriptor(DataView.prototype, 'byteLength').get);
    const viewOffset = uncurry(getOwnPropertyDescriptor(DataView.prototype, 'byteOffset').get);
    const viewBuffer = uncurry(getOwnPropertyDescriptor(DataView.prototype, 'buffer').get);
    const charCode = uncurry(str.prototype.charCodeAt), slice = uncurry(str.prototype.slice), indexOf = uncurry(str.prototype.indexOf);
    const wellFormed = uncurry(str.prototype.toWellFormed);
    const join = uncurry(Array.prototype.join), exec = uncurry(RegExp.prototype.exec), bigText = uncurry(BI.prototype.toString);
    // Levels of JSON in a result or an argument. The host takes 128 in a frame: the frame, the list of arguments and the
    // tags of the innermost value are beside these.
    const MAX_DEPTH = 120;
    const ENTRY_BYTES = 256 * 1024, CUT = '\u2026 (cut at 256 KiB)';
    const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
    // Own data properties alone, whatever became of the prototypes.
    const put = (object, key, value) => defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
    const bare = (from) => {
        const object = create(null);
        for (let i = 0, names = keys(from); i < names.length; ++i) object[names[i]] = from[names[i]];
        return object;
    };
    const send = (message) => post(stringify(bare(message)));

    /** The length of `text` in UTF-8, where half of a surrogate pair becomes U+FFFD. */
    function byteLength(text) {
        let length = text.length;
        if (exec(/[^\0-\x7f]/, text) === null) return length;
        text = wellFormed(text);
        for (let i = 0, count = length; i < count; ++i) {
            const code = charCode(text, i);
            if (code > 0x7f) length += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
        }
        return length;
    }
    /** The first characters of `text` that have `bytes` at most in UTF-8. */
    function head(text, bytes) {
        text = slice(text, 0, bytes + 1); // a unit has a byte at least: the last of these does not fit
        if (exec(/[^\0-\x7f]/, text) === null) return slice(text, 0, bytes);
        text = wellFormed(text);
        for (let i = 0; i < text.length;) {
            const code = charCode(text, i);
            const isPair = code >= 0xd800 && code <= 0xdfff;
            bytes -= isPair ? 4 : code > 0x7ff ? 3 : code > 0x7f ? 2 : 1;
            if (bytes < 0) return slice(text, 0, i);
            i += isPair ? 2 : 1;
        }
        return text;
    }
    function base64(bytes) {
        let text = '';
        for (let i = 0; i < bytes.length; i += 3) {
            const n = (bytes[i] << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
            text += ALPHABET[n >> 18] + ALPHABET[(n >> 12) & 63] + (i + 1 < bytes.length ? ALPHABET[(n >> 6) & 63] : '=') +
                (i + 2 < bytes.length ? ALPHABET[n & 63] : '=');
        }
        return text;
    }
    function unbase64(text) {
        while (text.length && text[text.length - 1] === '=') text = slice(text, 0, -1);
        const bytes = new U8((text.length * 3) >> 2);
        for (let i = 0, at = 0, bits = 0, n = 0; i < text.length; ++i) {
            n = ((n << 6) | indexOf(ALPHABET, text[i])) & 0xffffff;
            bits += 6;
            if (bits >= 8) bytes[at++] = (n >> (bits -= 8)) & 255;
        }
        return bytes;
    }
    // The internal slot tells what an object is; its prototype and tags may lie.
    const answers = (probe) => {
        try { probe(); return true; } catch { return false; }
    };
    function bytes(value) {
        if (answers(() => abLength(value))) return new U8(value);
        if (!isView(value)) return undefined;
        return answers(() => viewLength(value)) ? new U8(viewBuffer(value), viewOffset(value), viewLength(value))
            : new U8(bufferOf(value), offsetOf(value), bytesOf(value));
    }
    const tag = (name, key, value) => {
        const object = create(null);
        object.$atoll = name;
        if (key) object[key] = value;
        return object;
    };
    /** `value` as JSON with tags, `depth` levels deep. Throws a TypeError that names what cannot be told, and where. */
    function encode(value, path, open, depth) {
        switch (typeof value) {
            case 'undefined': return tag('undefined');
            case 'boolean': case 'string': return value;
            case 'number':
                return isFinite(value) && !(value === 0 && 1 / value < 0) ? value
                    : tag('number', 'value', value !== value ? 'NaN' : value === 0 ? '-0' : value > 0 ? 'Infinity' : '-Infinity');
            case 'bigint': return tag('bigint', 'value', bigText(value));
            case 'function': throw new TE(`${path} is a function, which cannot leave the program`);
            case 'symbol': throw new TE(`${path} is a symbol, which cannot leave the program`);
        }
        if (value === null) return null;
        if (setHas(open, value)) throw new TE(`${path} is cyclic, which cannot leave the program`);
        if (depth >= MAX_DEPTH && !bytes(value) && !answers(() => time(value))) {
            throw new TE(`${path} is nested more than ${MAX_DEPTH} levels deep`);
        }
        setAdd(open, value);
        const result = encodeObject(value, path, open, depth + 1);
        setDelete(open, value);
        return result;
    }
    function encodeList(list, length, path, open, depth) {
        const result = [];
        for (let i = 0; i < length; ++i) put(result, i, encode(list[i], `${path}[${i}]`, open, depth));
        return result;
    }
    function encodeObject(value, path, open, depth) {
        if (isArray(value)) return seal(encodeList(value, value.length, path, open, depth));
        const raw = bytes(value);
        if (raw) return tag('bytes', 'value', base64(raw));
        if (answers(() => time(value))) {
            const at = time(value);
            return at === at ? tag('date', 'value', iso(value)) : tag('date', 'value', null);
        }
        if (answers(() => mapHas(value, 0))) {
            const entries = [];
            mapEach(value, (v, k) => put(entries, entries.length, seal([encode(k, `a key of ${path}`, open, depth + 2),
                encode(v, `an entry of ${path}`, open, depth + 2)])));
            return tag('map', 'entries', seal(entries));
        }
        if (answers(() => setHas(value, 0))) {
            const values = [];
            setEach(value, (v) => put(values, values.length, encode(v, `a member of ${path}`, open, depth + 1)));
            return tag('set', 'values', seal(values));
        }
        const result = create(null);
        if (value instanceof E) {
            result.name = str(value.name);
            result.message = str(value.message);
        }
        const names = keys(value);
        let isTagged = false;
        for (let i = 0; i < names.length; ++i) isTagged = isTagged || names[i] === '$atoll';
        for (let i = 0; i < names.length; ++i) {
            const one = value[names[i]];
            put(result, names[i], encode(one, `${path}.${names[i]}`, open, isTagged ? depth + 1 : depth));
        }
        return isTagged ? tag('object', 'value', result) : result;
    }
    // JSON.stringify asks arrays for toJSON along the prototypes.
    const seal = (array) => defineProperty(array, 'toJSON', { value: undefined });

    const NUMBERS = ['NaN', nan, '-0', -0, 'Infinity', inf, '-Infinity', -inf];
    /** The value of a tag. Throws where it is not what its kind has. */
    function checked(isRight, tagged) {
        if (!isRight) throw new TE(`no ${tagged.$atoll}`);
        return tagged.value;
    }
    function decode(value) {
        if (typeof value !== 'object' || value === null) return value;
        if (isArray(value)) {
            for (let i = 0; i < value.length; ++i) put(value, i, decode(value[i]));
            return value;
        }
        if (!has(value, '$atoll')) return decodeFields(value);
        switch (value.$atoll) {
            case 'bigint': return BI(checked(typeof value.value === 'string' && exec(/^-?[0-9]+$/, value.value) !== null, value));
            case 'bytes': return unbase64(checked(typeof value.value === 'string' && value.value.length % 4 !== 1 &&
                exec(/^[A-Za-z0-9+/]*={0,2}$/, value.value) !== null, value));
            case 'date': {
                const date = new D(value.value === null ? nan : checked(typeof value.value === 'string' || typeof value.value === 'number', value));
                checked(value.value === null || answers(() => iso(date)), value);
                return date;
            }
            case 'undefined': return undefined;
            case 'number':
                for (let i = 0; i < NUMBERS.length; i += 2) if (NUMBERS[i] === value.value) return NUMBERS[i + 1];
                return checked(false, value);
            case 'map': {
                const map = new M();
                checked(isArray(value.entries), value);
                for (let i = 0; i < value.entries.length; ++i) {
                    const entry = value.entries[i];
                    checked(isArray(entry) && entry.length === 2, value);
                    mapSet(map, decode(entry[0]), decode(entry[1]));
                }
                return map;
            }
            case 'set': {
                const set = new S();
                checked(isArray(value.values), value);
                for (let i = 0; i < value.values.length; ++i) setAdd(set, decode(value.values[i]));
                return set;
            }
            case 'object':
                checked(typeof value.value === 'object' && value.value !== null && !isArray(value.value), value);
                return decodeFields(value.value);
        }
        return decodeFields(value);
    }
    function decodeFields(object) {
        for (let i = 0, names = keys(object); i < names.length; ++i) put(object, names[i], decode(object[names[i]]));
        return object;
    }

    // Node and vm2 would make this text with functions of their own realm, whose errors the program could catch.
    function stackText(error, frames) {
        let text = describe(error);
        for (let i = 0; i < frames.length && i < 10; ++i) {
            if (frames[i].getFileName() === 'program.js') text += `\n    at program.js:${frames[i].getLineNumber()}`;
        }
        return text;
    }
    function lineOf(error) {
        try {
            const found = exec(/program\.js:(\d+)/, str(error.stack));
            return found ? +found[1] : undefined;
        } catch {
            return undefined;
        }
    }

    let limits, ended = false, nextCall = 1, nextTimer = 1;
    const calls = new M(), timers = new M();
    function end(message) {
        if (ended) return;
        ended = true;
        send(bare(message));
    }
    function fail(kind, error) {
        let message = describe(error);
        if (exec(/^ReferenceError: (?:require|module|exports) is not defined$/, message) !== null) message += ': there are no modules here';
        end({ type: 'result', error: bare({ kind, message, line: lineOf(error) }) });
    }
    function finish(value) {
        let encoded;
        try {
            if (value === undefined) return end({ type: 'result' });
            encoded = encode(value, 'the result', new S(), 0);
            const text = stringify(encoded);
            if (byteLength(text) > limits.maxValueBytes) throw new TE(`the result has more than ${limits.maxValueBytes} bytes`);
        } catch (error) {
            return fail('runtime', error);
        }
        end({ type: 'result', value: encoded });
    }

    // console: one entry a call, with the words of python_logs.py where something is left out.
    let logged = 0, isLogFull = false;
    function log(level, whole) {
        let text = head(whole, ENTRY_BYTES);
        if (text.length < whole.length) text = head(whole, ENTRY_BYTES - byteLength(CUT)) + CUT;
        const told = head(text, limits.maxLogBytes - logged);
        logged += byteLength(told) + 16; // an empty entry costs memory, too
        if (told !== '' || text === '') send({ type: 'log', level, text: told });
        if (logged < limits.maxLogBytes) return;
        isLogFull = true;
        send({ type: 'log', level: 'warn', text: 'logs end here: the run has used its bytes for logs' });
    }
    const { console, describe } = makeConsole({
        uncurry, answers, put, bigText, mapGet, mapSet, mapDelete, mapHas, mapEach, setEach, setHas, setAdd, setDelete, time, iso, has,
        isView, viewLength, abLength, join, exec, slice, indexOf,
    }, log, () => ended || isLogFull);
    const timer = (repeats) => (callback, delay, ...rest) => {
        if (typeof callback !== 'function') throw new TE('a timer needs a function');
        const id = nextTimer++, ms = +delay > 0 ? +delay : 0;
        mapSet(timers, id, { callback, rest, repeats, ms });
        send({ type: 'timer', id, ms });
        return id;
    };
    const clear = (id) => { mapDelete(timers, id); };
    const globals = {
        console, setTimeout: timer(false), setInterval: timer(true), clearTimeout: clear, clearInterval: clear,
        queueMicrotask: (callback) => { then(P.resolve(), callback); },
    };

    // The host ends a run with more calls open: the others wait here, in their order.
    const OPEN_CALLS = 32;
    const heldCalls = [];
    let openCalls = 0, nextHeld = 0;
    const codemode = create(null);
    function tool(name) {
        return (...values) => new P((resolve, reject) => {
            if (ended) return reject(new E('the program has ended'));
            if (nextCall > limits.maxCalls) return reject(new E(`more than ${limits.maxCalls} calls of tools`));
            const args = seal(encodeList(values, values.length, 'an argument of ' + name, new S(), 0));
            if (byteLength(stringify(args)) > limits.maxValueBytes) {
                throw new TE(`the arguments of ${name} have more than ${limits.maxValueBytes} bytes`);
            }
            const id = nextCall++;
            mapSet(calls, id, { resolve, reject });
            const frame = { type: 'call', id, name, args };
            if (openCalls === OPEN_CALLS) return put(heldCalls, heldCalls.length, frame);
            ++openCalls;
            send(frame);
        });
    }

    // Data properties of prototypes become accessors whose setter defines an own property of the receiver: frozen
    // prototypes alone would make `o.toString = ...` fail (the override mistake).
    function harden(object) {
        for (const key of ownKeys(object)) {
            const found = getOwnPropertyDescriptor(object, key);
            if (!found.configurable || !('value' in found)) continue;
            const value = found.value;
            if (key === 'constructor' || typeof value === 'function' || typeof value === 'string') {
                defineProperty(object, key, {
                    get: () => value,
                    set(to) {
                        if (this === object || this === null || (typeof this !== 'object' && typeof this !== 'function')) {
                            throw new TE(`cannot change ${str(key)} of a built-in object`);
                        }
                        defineProperty(this, key, { value: to, writable: true, enumerable: true, configurable: true });
                    },
                    enumerable: found.enumerable, configurable: false,
                });
            }
        }
        freeze(object);
    }
    function blocked() { throw new TE('code generation from strings is not allowed'); }
    function start(names) {
        for (const name of names) {
            defineProperty(codemode, name, { value: tool(name), enumerable: true });
        }
        const list = names.length ? join(names, ', ') : 'none';
        const unknown = new AnyProxy(freeze(codemode), {
            get(target, key) {
                if (has(target, key)) return target[key];
                if (typeof key === 'symbol' || key === 'then' || key === 'toJSON') return undefined;
                return () => new P((_, reject) => reject(new E(`there is no tool ${str(key)}; there are: ${list}`)));
            },
        });
        const kinds = [function () {}, async function () {}, function* () {}, async function* () {}];
        for (const one of kinds) {
            const prototype = getPrototypeOf(one);
            const stand = function Function() { blocked(); };
            defineProperty(stand, 'prototype', { value: prototype, writable: false });
            defineProperty(prototype, 'constructor', { value: stand, writable: true, configurable: true });
            if (prototype === Function.prototype) defineProperty(G, 'Function', { value: stand, writable: true, configurable: true });
        }
        defineProperty(G, 'eval', { value: function () { blocked(); }, writable: true, configurable: true });
        for (const gone of ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'escape', 'unescape', 'VMError', 'Buffer', 'process', 'require',
            'ShadowRealm', 'gc']) {
            delete G[gone];
        }
        for (const name of keys(globals)) defineProperty(G, name, { value: globals[name], configurable: true });
        defineProperty(G, 'codemode', { value: unknown, writable: false, configurable: false, enumerable: true });
        try { delete E.captureStackTrace; delete E.prepareStackTrace; } catch { /* an engine without them */ }
        try {
            defineProperty(E, 'prepareStackTrace', { value: stackText });
        } catch {
            E.prepareStackTrace = stackText; // vm2's is an accessor that stays
        }
        const seen = new S();
        const visit = (value) => {
            if ((typeof value !== 'object' && typeof value !== 'function') || value === null || setHas(seen, value)) return;
            if (value === G || value === unknown || value === console) return;
            setAdd(seen, value);
            visit(getPrototypeOf(value));
            for (const key of ownKeys(value)) {
                const found = getOwnPropertyDescriptor(value, key);
                visit(found.value); visit(found.get); visit(found.set);
            }
            try { harden(value); } catch { /* an engine's own object that refuses: left as it is */ }
        };
        const iterators = [[][Symbol.iterator](), ''[Symbol.iterator](), new M()[Symbol.iterator](), new S()[Symbol.iterator](),
            ''.matchAll(/x/g), (function* () {})(), (async function* () {})()];
        for (const kind of kinds) visit(getPrototypeOf(kind));
        for (const one of iterators) visit(getPrototypeOf(one));
        for (const name of getOwnPropertyNames(G)) {
            const found = getOwnPropertyDescriptor(G, name);
            if ('value' in found) visit(found.value);
            if (found.configurable) {
                const kept = 'value' in found ? { value: found.value, writable: false } : {};
                try {
                    defineProperty(G, name, { enumerable: false, configurable: false, ...kept });
                } catch { /* see visit */ }
            }
        }
        try { preventExtensions(G); } catch { /* vm2: its global refuses; docs/code-mode.md */ }
    }

    function timerFired(id) {
        const found = mapGet(timers, id);
        if (!found || ended) return;
        if (!found.repeats) mapDelete(timers, id);
        try {
            apply(found.callback, undefined, found.rest);
        } catch (error) {
            fail('runtime', error);
        }
        if (found.repeats && mapHas(timers, id)) send({ type: 'timer', id, ms: found.ms });
    }
    function answer(call, message) {
        try {
            call.resolve(has(message, 'result') ? decode(message.result) : undefined);
        } catch (error) {
            call.reject(new E(`the answer is malformed: ${describe(error)}`));
        }
    }
    let refuseImport;
    return function deliver(text, program) {
        const message = parse(text);
        switch (message.type) {
            case 'start':
                limits = message.limits;
                start(message.tools);
                refuseImport = () => new P((_, reject) => reject(new TE('import is not allowed: there are no modules here')));
                return undefined;
            case 'run': {
                let running;
                try {
                    if (!NativeProxy) program = program(AnyProxy);
                    running = program(freeze(refuseImport));
                } catch (error) {
                    return fail('runtime', error);
                }
                then(running, finish, (error) => fail('runtime', error));
                return undefined;
            }
            case 'timer': return timerFired(message.id);
            case 'unhandled': return fail('runtime', new E(message.message));
            case 'call_result': {
                const call = mapGet(calls, message.id);
                if (!call || ended) return undefined;
                mapDelete(calls, message.id);
                if (nextHeld < heldCalls.length) send(heldCalls[nextHeld++]);
                else --openCalls;
                if (has(message, 'error')) call.reject(new E(str(message.error.message)));
                else answer(call, message);
                return undefined;
            }
        }
        return undefined;
    };
}

/** The text of an expression, the function that makes the realm. */
export default `((makeConsole) => ${makeRealm})(${makeConsole})`;
