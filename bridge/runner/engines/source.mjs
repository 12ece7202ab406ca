// What becomes of a program's text before it is compiled; runs in the runner's realm and never runs the program.
import { parse } from '../node_modules/acorn/dist/acorn.mjs';
import { base, fullAncestor } from '../node_modules/acorn-walk/dist/walk.mjs';

const FENCE = /^(\s*)```[\w-]*[ \t]*\r?\n([^]*?)(?:\r?\n)?[ \t]*```\s*$/;

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

function syntaxError(error) {
    if (!(error instanceof SyntaxError) && !(error instanceof RangeError)) throw error;
    return new SourceError(`SyntaxError: ${error.message}`, error.loc?.line);
}

/** Throws SourceError for an import, wherever it stands: this walk knows no kinds of nodes, so it can miss none. */
function refuseImports(code) {
    const open = [];
    try {
        open.push(parse(code, SCRIPT));
    } catch (error) {
        throw syntaxError(error);
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
        if (!/\b(?:import|export)\b/.test(code)) throw syntaxError(error);
        let script;
        try {
            script = withoutExports(code);
            return { code: script, tree: parse(script, SCRIPT) };
        } catch (second) {
            throw second instanceof SourceError ? second : syntaxError(error);
        }
    }
}

/** As JavaScript or, where that does not parse, without the types of TypeScript. */
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
        return asScript(plain);
    }
}

/** The text of a script whose value is the program: `(refuseImport) => Promise`. Lines are those of `code`. Throws SourceError. */
export async function prepare(code, language) {
    const fenced = FENCE.exec(code);
    if (fenced) code = `${fenced[1].replace(/[^\n]/g, '')}\n${fenced[2]}`;
    code = code.replace(/^(\s*)#!/, '$1//');
    let tree;
    let returns = false;
    const imports = [];
    ({ code, tree } = await read(code, language));
    try {
        fullAncestor(tree, (node, _, ancestors) => {
            if (node.type === 'ImportExpression') imports.push(node.start);
            // A return of the program itself, not of a function in it.
            if (node.type === 'ReturnStatement' && !ancestors.some((one) => /Function/.test(one.type))) returns = true;
        }, walked);
    } catch (error) {
        throw syntaxError(error);
    }
    const hidden = hiddenName(code, 'refuseImport');
    const edits = imports.map((at) => [at, at + 'import'.length, hidden]);
    const last = tree.body.at(-1);
    if (last?.type === 'ExpressionStatement' && !returns) {
        const { type } = last.expression;
        const isSole = tree.body.length === 1 && (type === 'ArrowFunctionExpression' || type === 'FunctionExpression');
        // The statement's own end, since the expression may stand in parentheses.
        const until = code[last.end - 1] === ';' ? last.end - 1 : last.end;
        edits.push([last.start, last.start, 'return ('], [until, until, isSole ? ')()' : ')']);
    }
    const isMain = last?.type === 'FunctionDeclaration' && tree.body.length === 1 && !last.generator;
    if (isMain && last.params.every(({ type }) => type === 'AssignmentPattern' || type === 'RestElement')) {
        edits.push([last.end, last.end, ` return ${last.id.name}();`]);
    }
    code = edited(code, edits);
    refuseImports(code);
    return `(async (${hidden}) => {"use strict"; ${code}\n})`;
}
