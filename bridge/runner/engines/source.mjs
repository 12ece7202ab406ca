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
        if (node.type === 'ImportExpression') throw new SourceError('SyntaxError: import is not allowed', node.loc.start.line);
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

/** The text of a script whose value is the program: `(refuseImport) => Promise`. Lines are those of `code`. Throws SourceError. */
export async function prepare(code, language) {
    const fenced = FENCE.exec(code);
    if (fenced) code = `${fenced[1].replace(/[^\n]/g, '')}\n${fenced[2]}`;
    if (language === 'typescript') code = await withoutTypes(code);
    let tree;
    let returns = false;
    const imports = [];
    try {
        tree = parse(code, SCRIPT);
        fullAncestor(tree, (node, _, ancestors) => {
            if (node.type === 'ImportExpression') imports.push(node.start);
            // A return of the program itself, not of a function in it.
            if (node.type === 'ReturnStatement' && !ancestors.some((one) => /Function/.test(one.type))) returns = true;
        }, walked);
    } catch (error) {
        throw syntaxError(error);
    }
    let hidden = 'refuseImport';
    while (code.includes(hidden)) hidden += '_';
    const edits = imports.map((at) => [at, at + 'import'.length, hidden]);
    const last = tree.body.at(-1);
    if (last?.type === 'ExpressionStatement' && !returns) {
        const { type } = last.expression;
        const isSole = tree.body.length === 1 && (type === 'ArrowFunctionExpression' || type === 'FunctionExpression');
        // The statement's own end, since the expression may stand in parentheses.
        const until = code[last.end - 1] === ';' ? last.end - 1 : last.end;
        edits.push([last.start, last.start, 'return ('], [until, until, isSole ? ')()' : ')']);
    }
    edits.sort((a, b) => b[0] - a[0] || b[1] - a[1]);
    for (const [from, to, text] of edits) code = code.slice(0, from) + text + code.slice(to);
    refuseImports(code);
    return `(async (${hidden}) => {"use strict"; ${code}\n})`;
}
