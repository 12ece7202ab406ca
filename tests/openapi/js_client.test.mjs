// clients/js as a package, in TypeScript and in Node 22: its types compile in strict mode, name what is there, and it works with
// the WebSocket that Node has.
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, before, test } from 'node:test';

import * as client from '../../clients/js/src/index.js';
import { recipe } from '../node_support/recipes.mjs';
import { startServer } from '../node_support/server.mjs';
import { MODULES, runTool } from './tools.mjs';

const PACKAGE = fileURLToPath(new URL('../../clients/js', import.meta.url));
const STRICT = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--noUnusedLocals', '--target', 'es2022',
    '--module', 'nodenext', '--moduleResolution', 'nodenext', '--lib', 'es2022,dom,dom.iterable,dom.asynciterable', '--verbatimModuleSyntax',
    '--pretty', 'false'];
const EXPECTED = /^ *\/\/ @ts-expect-error.*$/gm;

const source = readFileSync(new URL('js_client_use.ts', import.meta.url), 'utf8');
const folder = path.join(MODULES, 'js_client');
before(() => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(path.join(folder, 'node_modules', '@atoll'), { recursive: true });
    symlinkSync(PACKAGE, path.join(folder, 'node_modules', '@atoll', 'client'));
    writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
    copyFileSync(new URL('js_client_use.ts', import.meta.url), path.join(folder, 'use.ts'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

const compile = (name) => runTool('tsc', [...STRICT, path.join(folder, name)]);

test('a program with the client compiles in strict mode', async () => {
    const { status, all } = await compile('use.ts');
    assert.equal(status, 0, all);
});

test('each wrong line of it is an error of the compiler', async () => {
    const wrong = source.match(EXPECTED).length;
    assert.ok(wrong >= 8, `${wrong} wrong lines`);
    writeFileSync(path.join(folder, 'wrong.ts'), source.replace(EXPECTED, ''));
    const { status, stdout } = await compile('wrong.ts');
    assert.notEqual(status, 0);
    assert.equal(stdout.match(/wrong\.ts\(/g).length, wrong, stdout);
});

/** The members that the types declare of an interface or a class. */
function declared(name) {
    const declarations = path.join(PACKAGE, 'src');
    const types = readdirSync(declarations).filter((file) => file.endsWith('.d.ts')).map((file) => readFileSync(path.join(declarations, file), 'utf8')).join('\n');
    const body = new RegExp(`^export (?:interface|class) ${name}\\b[^{]*\\{\\n([^]*?)^\\}`, 'm').exec(types)[1];
    return [...body.matchAll(/^    (?:readonly )?(\w+)(?=[(?:])/gm)].map(([, member]) => member).filter((member) => member !== 'constructor');
}

test('what the types declare is there', () => {
    const atoll = new client.Atoll({ baseUrl: 'http://127.0.0.1:9', apiKey: 'x' });
    const conversation = atoll.conversation('c1');
    conversation.info = { sandboxId: 's1' };
    const { sandbox } = conversation;
    const attachment = sandbox.processes.attach('p1');
    const objects = { Atoll: atoll, Conversations: atoll.conversations, Conversation: conversation, Sandboxes: atoll.sandboxes, Sandbox: sandbox,
        Files: sandbox.files, Processes: sandbox.processes, Attachment: attachment, Exec: sandbox.exec, Tools: sandbox.tools,
        Execute: atoll.execute, Executions: atoll.executions, AtollError: new client.AtollError({ code: 'x' }) };
    for (const [name, object] of Object.entries(objects)) {
        const members = declared(name);
        assert.ok(members.length > 0, name);
        for (const member of members) assert.ok(member in object, `${name}.${member}`);
    }
});

test('the program runs with what the package exports', async () => {
    const server = await startServer({ flags: ['--log-level', 'warn'] });
    try {
        const env = { ATOLL_URL: `http://${server.address}`, ATOLL_KEY: server.key };
        const { status, stdout, all } = await runTool('node', ['--experimental-strip-types', path.join(folder, 'use.ts')], env);
        assert.equal(status, 0, all);
        const wanted = ['true false', 'asked "echo hello"', 'hello', 'success 0', 'undefined', 'live', 'true', 'active', 'refused: unknown_agent at /agent'];
        assert.deepEqual(stdout.trim().split('\n'), wanted);
    } finally {
        await server.stop();
    }
});

test('the program of the quickstart runs as it stands there, with a WebSocket and without', async () => {
    const server = await startServer({ flags: ['--log-level', 'warn'] });
    try {
        writeFileSync(path.join(folder, 'tour.mjs'), recipe('tour.mjs', 'quickstart.md'));
        const env = { ATOLL_URL: `http://${server.address}`, ATOLL_API_KEY: server.key };
        const wanted = ['hello', 'A tour paused', '6 0', 'created src/a.txt', 'one', ' 6', 'copy', 'copy/a.txt', 'note', 'src', 'src/a.txt',
            'hello alice', 'SIGTERM', '1 ended', 'typed\r', '30 100\r', '7 true one'];
        // With the option Node 22 has no WebSocket, as 18 and 20.
        for (const options of [[], ['--no-experimental-websocket']]) {
            const { status, stdout, stderr, all } = await runTool('node', [...options, path.join(folder, 'tour.mjs')], env);
            assert.deepEqual([status, stderr], [0, ''], all);
            assert.deepEqual(stdout.trimEnd().split('\n'), wanted, String(options));
        }
    } finally {
        await server.stop();
    }
});

test('the package has its sources, its types and nothing that it depends on', async () => {
    const made = await runTool('npm', ['pack', '--dry-run', '--json', PACKAGE]);
    assert.equal(made.status, 0, made.all);
    const [{ files }] = JSON.parse(made.stdout);
    const names = files.map(({ path: name }) => name);
    for (const name of ['package.json', 'README.md', 'LICENSE', 'src/index.js', 'src/index.d.ts']) assert.ok(names.includes(name), `${name}: ${names}`);
    assert.ok(names.every((name) => name.startsWith('src/') || !name.includes('/')), String(names));
    assert.equal(readFileSync(path.join(PACKAGE, 'LICENSE'), 'utf8'), readFileSync(path.join(PACKAGE, '..', '..', 'LICENSE'), 'utf8'));
    // Behind the package there is nothing.
    assert.doesNotMatch(readFileSync(path.join(PACKAGE, 'README.md'), 'utf8'), /\]\((?!http)/);
    const described = JSON.parse(readFileSync(path.join(PACKAGE, 'package.json'), 'utf8'));
    assert.deepEqual([described.dependencies, described.peerDependencies], [undefined, undefined]);
    for (const name of names.filter((each) => each.endsWith('.js'))) {
        for (const [, from] of readFileSync(path.join(PACKAGE, name), 'utf8').matchAll(/^(?:import|export) .* from '(.*)';$/gm))
            assert.ok(from.startsWith('./'), `${name} imports ${from}`);
    }
});
