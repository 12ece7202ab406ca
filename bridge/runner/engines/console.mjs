// The console of a program, and the text of a value: evaluated in the program's realm beside realm.mjs, before the program.
// Like that one, this function refers to nothing outside itself; `realm` lends it primordials, `tell` takes the entries, and none is
// made where `isSilent`.
// The methods are node's. None throws, and a getter is named instead of called.
export default function makeConsole(realm, tell, isSilent) {
    'use strict';
    const { uncurry, answers, put, bigText, mapGet, mapSet, mapDelete, mapHas, mapEach, setEach, setHas, setAdd, setDelete, time, iso, has,
        isView, viewLength, abLength, join, exec, slice, indexOf } = realm;
    const { create, keys, getOwnPropertyDescriptor, getPrototypeOf } = Object;
    const { ownKeys } = Reflect;
    const { isArray } = Array;
    const { stringify } = JSON;
    const { now } = Date;
    const E = Error, M = Map, S = Set, P = Promise, str = String, number = Number, integer = parseInt, float = parseFloat;
    const plain = Object.prototype, tagKey = Symbol.toStringTag;
    const source = uncurry(getOwnPropertyDescriptor(RegExp.prototype, 'source').get);
    const flags = uncurry(getOwnPropertyDescriptor(RegExp.prototype, 'flags').get);
    const functionText = uncurry(Function.prototype.toString), repeat = uncurry(str.prototype.repeat);
    const fixed = uncurry(number.prototype.toFixed);
    // Their tags become getters where the realm is hardened.
    const namespaces = new M([[Math, 'Math'], [JSON, 'JSON'], [Reflect, 'Reflect']]);
    const boxes = [number, str, Boolean, BigInt, Symbol];
    for (let i = 0; i < boxes.length; ++i) boxes[i] = uncurry(boxes[i].prototype.valueOf);
    const ITEMS = 10000, ROWS = 1000, COLUMNS = 100, CELL = 1000, INDENT = 100, ENTRY = 256 * 1024;

    /** The text of a value; `open` has the objects around it. Never throws. */
    function show(value, nested, open = new S()) {
        try {
            switch (typeof value) {
                case 'string': return nested ? stringify(value) : value;
                case 'bigint': return `${bigText(value)}n`;
                case 'function': return functionName(value);
            }
            if (typeof value !== 'object' || value === null) return value === 0 && 1 / value < 0 ? '-0' : str(value);
            if (setHas(open, value)) return '[cyclic]';
            setAdd(open, value);
            try {
                return objectText(value, open);
            } finally {
                setDelete(open, value);
            }
        } catch {
            return '[unprintable]';
        }
    }
    function functionName(value) {
        const found = getOwnPropertyDescriptor(value, 'name'), name = found && typeof found.value === 'string' ? found.value : '';
        if (exec(/^class\b/, functionText(value)) !== null) return `[class ${name || '(anonymous)'}]`;
        return name === '' ? '[Function (anonymous)]' : `[Function: ${name}]`;
    }
    /** The name of the value's class before its members, with a space behind; empty for a plain object. */
    function className(value) {
        const prototype = getPrototypeOf(value);
        const own = mapGet(namespaces, value) ?? getOwnPropertyDescriptor(value, tagKey)?.value;
        if (prototype === plain) return typeof own === 'string' && own !== '' ? `Object [${own}] ` : '';
        if (prototype === null) return '[Object: null prototype] ';
        const { constructor, [tagKey]: tag } = prototype;
        const name = typeof constructor?.name === 'string' && constructor.name !== '' ? constructor.name : 'Object';
        return typeof tag === 'string' && tag !== '' && tag !== name ? `${name} [${tag}] ` : name === 'Object' ? '' : `${name} `;
    }
    /** A list of `length` members in brackets, where `text` gives each; those beyond ITEMS are counted. */
    function listText(length, text) {
        const parts = [];
        for (let i = 0; i < length && i < ITEMS; ++i) put(parts, i, text(i));
        if (length > ITEMS) put(parts, ITEMS, `... ${length - ITEMS} more items`);
        return join(parts, ', ');
    }
    function propertyText(object, key, open) {
        const found = getOwnPropertyDescriptor(object, key);
        if (found === undefined || has(found, 'value')) return show(found?.value, true, open);
        return found.get === undefined ? '[Setter]' : found.set === undefined ? '[Getter]' : '[Getter/Setter]';
    }
    function membersText(value, open) {
        const all = ownKeys(value), names = [];
        for (let i = 0; i < all.length; ++i) {
            if (getOwnPropertyDescriptor(value, all[i])?.enumerable) put(names, names.length, all[i]);
        }
        const nameText = (name) => (typeof name === 'symbol' ? `[${str(name)}]` : name);
        return `{${listText(names.length, (i) => `${nameText(names[i])}: ${propertyText(value, names[i], open)}`)}}`;
    }
    function objectText(value, open) {
        if (value instanceof E) {
            const text = describe(value);
            const own = membersText(value, open);
            return own === '{}' ? text : `${text} ${own}`;
        }
        if (isArray(value)) return `[${listText(value.length, (i) => (has(value, i) ? propertyText(value, i, open) : '<1 empty item>'))}]`;
        const name = className(value);
        // A built-in object has a prototype of its own.
        if (name === '') return membersText(value, open);
        if (answers(() => time(value))) return answers(() => iso(value)) ? iso(value) : 'Invalid Date';
        if (answers(() => source(value))) return `/${source(value)}/${flags(value)}`;
        const members = [];
        if (answers(() => mapHas(value, 0))) {
            mapEach(value, (v, k) => put(members, members.length, `${show(k, true, open)} => ${show(v, true, open)}`));
            return `${name}{${join(members, ', ')}}`;
        }
        if (answers(() => setHas(value, 0))) {
            setEach(value, (v) => put(members, members.length, show(v, true, open)));
            return `${name}{${join(members, ', ')}}`;
        }
        if (isView(value) && !answers(() => viewLength(value))) {
            return `${slice(name, 0, -1)}(${value.length}) [${listText(value.length, (i) => show(value[i], true, open))}]`;
        }
        if (answers(() => viewLength(value))) return `${name}{byteLength: ${viewLength(value)}}`;
        if (answers(() => abLength(value))) return `${name}{byteLength: ${abLength(value)}}`;
        // Nobody can ask a promise for its value without waiting for it.
        if (value instanceof P) return 'Promise {...}';
        for (let i = 0; i < boxes.length; ++i) {
            if (answers(() => boxes[i](value))) return `[${slice(name, 0, -1)}: ${show(boxes[i](value), true, open)}]`;
        }
        return name + membersText(value, open);
    }
    /** Name, message and chain of causes of what was thrown; never throws. */
    function describe(error) {
        let text = '';
        try {
            for (let depth = 0; depth < 10; ++depth) {
                if (typeof error !== 'object' || error === null || !(error instanceof E)) {
                    text += show(error, false);
                    break;
                }
                text += `${str(error.name)}: ${str(error.message)}`;
                if (!has(error, 'cause') || error.cause === undefined) break;
                text += ' (cause: ';
                error = error.cause;
                if (depth === 9) text += '...';
            }
        } catch {
            text += '[unprintable error]';
        }
        return slice(text, 0, 65537); // one more than the server keeps, which marks what it cuts
    }

    /** A value in place of `%` and `kind`; undefined: no directive, which stays as it is. */
    function directive(kind, value) {
        const isSymbol = typeof value === 'symbol';
        switch (kind) {
            case 's': {
                if (typeof value === 'function') return functionText(value);
                const isObject = typeof value === 'object' && value !== null;
                const own = isObject && !(value instanceof E) ? value.toString : undefined;
                return typeof own === 'function' && exec(/\[native code\]/, functionText(own)) === null ? str(value) : show(value, false);
            }
            case 'd': return typeof value === 'bigint' ? show(value) : isSymbol ? 'NaN' : show(number(value));
            case 'i': return typeof value === 'bigint' ? show(value) : isSymbol ? 'NaN' : show(integer(value));
            case 'f': return isSymbol ? 'NaN' : show(float(value));
            case 'j': return str(stringify(value));
            case 'o': case 'O': return show(value, true);
            case 'c': return '';
        }
        return undefined;
    }
    function format(values) {
        let text = '', next = 0;
        if (values.length > 1 && typeof values[0] === 'string') {
            const template = values[next++];
            let from = 0;
            for (let at = 0; (at = indexOf(template, '%', at)) >= 0 && at + 1 < template.length; ++at) {
                const kind = template[at + 1];
                let piece = kind === '%' ? '%' : undefined;
                if (piece === undefined && next < values.length) {
                    try {
                        piece = directive(kind, values[next]);
                    } catch {
                        piece = show(values[next], false);
                    }
                    if (piece !== undefined) ++next;
                }
                if (piece === undefined) continue;
                text += slice(template, from, at) + piece;
                from = ++at + 1;
            }
            text += slice(template, from);
        }
        for (; next < values.length; ++next) text += (next > 0 ? ' ' : '') + show(values[next], false);
        return text;
    }

    let groups = 0;
    function indented(text) {
        if (groups === 0) return text;
        const margin = repeat('  ', groups < INDENT ? groups : INDENT);
        let out = '';
        for (let from = 0; from >= 0 && out.length <= ENTRY;) {
            const end = indexOf(text, '\n', from);
            out += margin + slice(text, from, end < 0 ? undefined : end) + (end < 0 ? '' : '\n');
            from = end < 0 ? -1 : end + 1;
        }
        return out;
    }
    /** Sends a log entry whose text `make` gives. */
    function emit(level, make) {
        if (isSilent()) return;
        let text = '[unprintable]';
        try {
            text = indented(make());
        } catch { /* it is longer than a string may be, or somebody's trap has thrown */ }
        tell(level, text);
    }
    // The program's own: it may replace methods and add others. Nothing here reads it.
    const console = create({});
    put(console, tagKey, 'console');
    for (const level of ['log', 'info', 'warn', 'error', 'debug']) console[level] = (...values) => emit(level, () => format(values));
    const { log, warn } = console;
    const label = (value) => (value === undefined ? 'default' : show(value, false));

    function tableText(data, only) {
        const isMap = answers(() => mapHas(data, 0)), isSet = !isMap && answers(() => setHas(data, 0));
        const PLACE = Symbol(), KEY = Symbol(), VALUE = Symbol();
        const columns = new M(), rows = [];
        let count = 0, columnCount = 0;
        function columnOf(key, head) {
            if (!mapHas(columns, key) && (columnCount < COLUMNS || key === VALUE)) {
                ++columnCount;
                mapSet(columns, key, { head: slice(head, 0, CELL), width: head.length < CELL ? head.length : CELL });
            }
            return mapGet(columns, key);
        }
        function fill(row, key, head, text) {
            const column = columnOf(key, head);
            if (column === undefined) return;
            mapSet(row, key, text = slice(text, 0, CELL));
            if (text.length > column.width) column.width = text.length;
        }
        function add(place, item, key) {
            if (++count > ROWS) return;
            const row = new M();
            put(rows, rows.length, row);
            fill(row, PLACE, '', place);
            if (isMap) fill(row, KEY, 'Key', show(key, true));
            // The last column: its width comes when the others are known.
            if (isMap || isSet || item === null || (typeof item !== 'object' && typeof item !== 'function')) {
                mapSet(row, VALUE, show(item, true));
                return;
            }
            const names = isArray(only) ? only : keys(item);
            for (let i = 0; i < names.length && i < COLUMNS; ++i) {
                const name = show(names[i], false);
                if (has(item, name)) fill(row, name, name, propertyText(item, name));
                else columnOf(name, name);
            }
        }
        columnOf(PLACE, isMap || isSet ? '(iteration index)' : '(index)');
        if (isMap) mapEach(data, (value, key) => add(str(count), value, key));
        else if (isSet) setEach(data, (value) => add(str(count), value));
        else for (let i = 0, names = keys(data); i < names.length; ++i) add(names[i], getOwnPropertyDescriptor(data, names[i])?.value);
        for (let i = 0; i < rows.length; ++i) if (mapHas(rows[i], VALUE)) fill(rows[i], VALUE, 'Values', mapGet(rows[i], VALUE));
        const ruler = (left, middle, right) => {
            const parts = [];
            mapEach(columns, ({ width }) => put(parts, parts.length, repeat('\u2500', width + 2)));
            return left + join(parts, middle) + right;
        };
        const line = (cell) => {
            const parts = [];
            mapEach(columns, (column, key) => {
                const text = cell(column, key);
                put(parts, parts.length, text + repeat(' ', column.width - text.length));
            });
            return `\u2502 ${join(parts, ' \u2502 ')} \u2502\n`;
        };
        let text = `${ruler('\u250c', '\u252c', '\u2510')}\n${line(({ head }) => head)}${ruler('\u251c', '\u253c', '\u2524')}\n`;
        for (let i = 0; i < rows.length && text.length <= ENTRY; ++i) text += line((_, key) => mapGet(rows[i], key) ?? '');
        return text + ruler('\u2514', '\u2534', '\u2518') + (count > ROWS ? `\n... ${count - ROWS} more rows` : '');
    }

    const counts = new M(), began = new M();
    function spent(name, values) {
        if (!mapHas(began, name)) return warn(`No such label '${name}'`);
        const ms = now() - mapGet(began, name);
        const text = `${name}: ${ms < 1000 ? `${ms}ms` : `${fixed(ms / 1000, 3)}s`}`;
        return emit('log', () => format(['%s', text, ...values]));
    }
    Object.assign(console, {
        dir: (value) => emit('log', () => show(value, true)),
        dirxml: log,
        table: (data, only) => (typeof data === 'object' && data !== null ? emit('log', () => tableText(data, only)) : log(data)),
        group: (...values) => {
            if (values.length > 0) log(...values);
            ++groups;
        },
        groupEnd: () => { if (groups > 0) --groups; },
        time: (name) => {
            name = label(name);
            if (mapHas(began, name)) return warn(`Label '${name}' already exists`);
            mapSet(began, name, now());
        },
        timeLog: (name, ...values) => spent(label(name), values),
        timeEnd: (name) => {
            name = label(name);
            spent(name, []);
            mapDelete(began, name);
        },
        count: (name) => {
            name = label(name);
            mapSet(counts, name, (mapGet(counts, name) ?? 0) + 1);
            log('%s', `${name}: ${mapGet(counts, name)}`);
        },
        countReset: (name) => {
            name = label(name);
            if (!mapDelete(counts, name)) warn('%s', `Count for '${name}' does not exist`);
        },
        assert: (isTrue, ...values) => {
            if (isTrue) return;
            if (typeof values[0] === 'string') values[0] = `Assertion failed: ${values[0]}`;
            else values = [values.length > 0 ? 'Assertion failed:' : 'Assertion failed', ...values];
            warn(...values);
        },
        trace: (...values) => emit('error', () => {
            const text = format(values), stack = str(new E('').stack);
            const at = indexOf(stack, '\n');
            return (text === '' ? 'Trace' : `Trace: ${text}`) + (at < 0 ? '' : slice(stack, at));
        }),
        // Node has these for a terminal and a debugger, which a program here has not.
        clear: () => {}, profile: () => {}, profileEnd: () => {}, timeStamp: () => {},
        createTask: () => ({ run: (task) => task() }),
        // There is one output: each console is this one.
        context: () => console, Console: function Console() { return console; },
    });
    console.groupCollapsed = console.group;
    return { console, show, describe };
}
