// The changes to a program's text before it is compiled; runs in the runner's realm and never runs the program.
import { parse } from '../node_modules/acorn/dist/acorn.mjs';
import { base, fullAncestor } from '../node_modules/acorn-walk/dist/walk.mjs';

const FENCE = /^(\s*)(`{3,}|~{3,})[^\n`]*\n([^]*?)(?:\r?\n)?[ \t]*\2\s*$/;
const FENCE_LINE = /^[ \t]*(?:```|~~~)/m;
// A line on which only a module's statement can begin. TypeScript's namespaces vanish with its types.
const MODULE_LINE = /^\s*(?:import\b(?!\s*\()|export\b)/;
const NAMESPACE = /^[ \t]*(?:export[ \t]+)?(?:namespace|module)[ \t]+(\w+)[\w.]*\s*\{/gm;

// The walk of acorn-walk 8.3.4 leaves out the second argument of an import.
const walked = {
    ...base,
    ImportExpression(node, state, visit) {
        visit(node.source, state, 'Expression');
        if (node.options) visit(node.options, state, 'Expression');
    },
};

const SCRIPT = { ecmaVersion: 'latest', sourceType: 'script', allowReturnOutsideFunction: true, allowAwaitOutsideFunction: true,
    locations: true };

/** An error of the text with the line of the program as it was sent. */
export class SourceError extends Error {
    constructor(message, line) {
        super(message);
        this.line = line;
    }
}

function syntaxError(error, code) {
    if (!(error instanceof SyntaxError) && !(error instanceof RangeError)) throw error;
    const line = error.loc?.line;
    const isOfModule = /import\.meta/.test(error.message) || MODULE_LINE.test(code.split('\n')[line - 1]);
    return new SourceError(`SyntaxError: ${error.message}${isOfModule ? ': there are no modules here' : ''}`, line);
}

/** Throws SourceError for an import, wherever it stands: this walk knows no kinds of nodes, so it can miss none. */
function refuseImports(code) {
    const open = [];
    try {
        open.push(parse(code, SCRIPT));
    } catch (error) {
        throw syntaxError(error, code);
    }
    while (open.length) {
        const node = open.pop();
        if (node.type === 'ImportExpression') throw new SourceError('SyntaxError: import is not allowed: there are no modules here', node.loc.start.line);
        for (const value of Object.values(node)) {
            if (typeof value === 'object' && value !== null) open.push(value);
        }
    }
}

async function withoutTypes(code) {
    const { default: sucrase } = await import('../node_modules/sucrase/dist/index.js');
    try {
        return sucrase.transform(code, { transforms: ['typescript'], disableESTransforms: true, keepUnusedImports: true }).code;
    } catch (error) {
        throw new SourceError(String(error.message).slice(0, 1000), error.loc?.line);
    }
}

function refuseNamespaces(code, plain) {
    for (const { 0: text, 1: name, index } of code.matchAll(NAMESPACE)) {
        if (plain.includes(text) || !new RegExp(`\\b${name}\\b`).test(plain)) continue;
        throw new SourceError('SyntaxError: namespaces are not taken: write an object or a class', code.slice(0, index).split('\n').length);
    }
}

const hiddenName = (code, name) => {
    while (code.includes(name)) name += '_';
    return name;
};

function edited(code, edits) {
    edits.sort((a, b) => b[0] - a[0] || b[1] - a[1]);
    for (const [from, to, text] of edits) code = code.slice(0, from) + text + code.slice(to);
    return code;
}

/** The text of a module as that of a script that calls what it exports by default. Throws SourceError for other modules. */
function withoutExports(code) {
    const edits = [];
    const name = hiddenName(code, 'exported');
    for (const node of parse(code, { ...SCRIPT, sourceType: 'module' }).body) {
        const { type, declaration, start, loc } = node;
        if (type === 'ImportDeclaration' || type === 'ExportAllDeclaration' || (type === 'ExportNamedDeclaration' && !declaration)) {
            const word = type === 'ImportDeclaration' ? 'import' : 'export of names';
            throw new SourceError(`SyntaxError: ${word} is not allowed: there are no modules here`, loc.start.line);
        }
        // The lines stay those of the program.
        if (type === 'ExportNamedDeclaration') edits.push([start, declaration.start, code.slice(start, declaration.start).replace(/[^\n]/g, ' ')]);
        if (type !== 'ExportDefaultDeclaration') continue;
        if (declaration.type === 'ClassDeclaration') {
            throw new SourceError('SyntaxError: export default of a class is not taken: export a function or a value', loc.start.line);
        }
        const lines = code.slice(start, declaration.start).replace(/[^\n]/g, '');
        edits.push([start, declaration.start, `${lines}const ${name} = `]);
        // A function keeps its name for what is around it.
        if (declaration.id) edits.push([declaration.start, declaration.start, `${declaration.id.name}; `]);
        edits.push([code.length, code.length, `\n;return typeof ${name} === 'function' ? ${name}() : ${name};`]);
    }
    return edited(code, edits);
}

/** The text of a script and its tree. Throws SourceError. */
function asScript(code) {
    try {
        return { code, tree: parse(code, SCRIPT) };
    } catch (error) {
        if (!/\b(?:import|export)\b/.test(code)) throw syntaxError(error, code);
        let script;
        try {
            script = withoutExports(code);
            return { code: script, tree: parse(script, SCRIPT) };
        } catch (second) {
            throw second instanceof SourceError ? second : syntaxError(error, code);
        }
    }
}

/** Reads JavaScript or, where that does not parse, leaves out the types of TypeScript: `typed` is then the text with them. */
async function read(code, language) {
    try {
        return asScript(code);
    } catch (error) {
        let plain;
        try {
            plain = await withoutTypes(code);
        } catch (typed) {
            // The one that got further has understood more of it.
            throw language === 'typescript' || typed.line > error.line ? typed : error;
        }
        const script = asScript(plain);
        refuseNamespaces(code, plain);
        return { ...script, typed: code };
    }
}

/** The function that a statement declares with a name or that is its expression, if it is one that can be called and awaited. */
function functionOf(statement) {
    const declared = statement.type === 'VariableDeclaration' && statement.declarations.length === 1 ? statement.declarations[0] : undefined;
    const made = declared?.init ?? statement;
    const id = declared?.id ?? statement.id;
    return /^(?:Arrow)?Function(?:Expression|Declaration)$/.test(made.type) && !made.generator && id?.name ? { name: id.name, params: made.params } : undefined;
}

/** True where a call may leave the parameter out. The `?` of TypeScript is in `typed` alone. */
function isOptional({ type, name }, typed) {
    if (type !== 'Identifier') return type === 'AssignmentPattern' || type === 'RestElement';
    return typed !== undefined && new RegExp(`(?<![\\w$])${name.replaceAll('$', '\\$')}\\s*\\?\\s*[:,)]`).test(typed);
}

/** The text of a script whose value is the program: `(refuseImport) => Promise`. Lines are those of `code`. Throws SourceError. */
export async function prepare(code, language) {
    const fenced = FENCE.exec(code);
    if (fenced) code = `${fenced[1].replace(/[^\n]/g, '')}\n${fenced[3]}`;
    code = code.replace(/^(\s*)#!/, '$1//');
    let tree, typed;
    let returns = false;
    const imports = [];
    let mentions = 0;
    try {
        ({ code, tree, typed } = await read(code, language));
    } catch (error) {
        if (error instanceof SourceError && FENCE_LINE.test(code)) error.message += ' (a code fence is taken off where it is around all of the text)';
        throw error;
    }
    try {
        fullAncestor(tree, (node, _, ancestors) => {
            if (node.type === 'ImportExpression') imports.push(node.start);
            if (node.type === 'Identifier' && node.name === 'main') ++mentions;
            // A return of the program itself, not of a function in it.
            if (node.type === 'ReturnStatement' && !ancestors.some((one) => /Function/.test(one.type))) returns = true;
        }, walked);
    } catch (error) {
        throw syntaxError(error, code);
    }
    const hidden = hiddenName(code, 'refuseImport');
    const edits = imports.map((at) => [at, at + 'import'.length, hidden]);
    const body = tree.body.filter(({ type }) => type !== 'EmptyStatement');
    while (body.length > 1 && body[0].directive) body.shift();
    const last = body.at(-1);
    if (last?.type === 'ExpressionStatement' && !returns) {
        const { type } = last.expression;
        const isSole = body.length === 1 && (type === 'ArrowFunctionExpression' || type === 'FunctionExpression');
        // The statement's own end, since the expression may stand in parentheses.
        const until = code[last.end - 1] === ';' ? last.end - 1 : last.end;
        edits.push([last.start, last.start, 'return ('], [until, until, isSole ? ')()' : ')']);
    }
    const isCalled = (one) => one && (body.length === 1 || (one.name === 'main' && mentions === 1));
    const main = returns || last?.type === 'ExpressionStatement' ? undefined : body.map(functionOf).find(isCalled);
    if (main?.params.every((one) => isOptional(one, typed))) edits.push([last.end, last.end, `; return ${main.name}();`]);
    code = edited(code, edits);
    refuseImports(code);
    return `(async (${hidden}) => {"use strict"; ${code}\n})`;
}
