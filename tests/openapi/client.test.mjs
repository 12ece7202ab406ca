// A client that is written against types made from the document: it compiles in strict mode, and works.
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { MODULES, runTool, startDescribed } from './tools.mjs';

const STRICT = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--noImplicitReturns',
    '--noFallthroughCasesInSwitch', '--noUnusedLocals', '--target', 'es2022', '--module', 'esnext', '--moduleResolution', 'bundler',
    '--lib', 'es2022,dom,dom.iterable', '--verbatimModuleSyntax', '--pretty', 'false'];
const EXPECTED = /^ *\/\/ @ts-expect-error.*$/gm;

const source = readFileSync(new URL('client.ts', import.meta.url), 'utf8');
const inModules = (name) => path.join(MODULES, name);

let place;
before(async () => {
    place = await startDescribed();
    writeFileSync(inModules('openapi.json'), JSON.stringify(place.document));
    const made = await runTool('openapi-typescript', ['openapi.json', '--output', 'schema.ts']);
    assert.equal(made.status, 0, made.all);
    // The packages are found from where the client is.
    copyFileSync(new URL('client.ts', import.meta.url), inModules('client.ts'));
});
after(() => place?.server.stop());

const compile = (name) => runTool('tsc', [...STRICT, name]);

test('the client compiles in strict mode', async () => {
    const { status, all } = await compile('client.ts');
    assert.equal(status, 0, all);
});

test('each wrong line of the client is an error of the compiler', async () => {
    const wrong = source.match(EXPECTED).length;
    assert.ok(wrong >= 8, `${wrong} wrong lines`);
    writeFileSync(inModules('wrong.ts'), source.replace(EXPECTED, ''));
    const { status, stdout } = await compile('wrong.ts');
    assert.notEqual(status, 0);
    assert.equal(stdout.match(/^wrong\.ts\(/gm).length, wrong, stdout);
});

test('the client does not compile against a document that lacks a type of event, or a property', async () => {
    const broken = structuredClone(place.document);
    delete broken.components.schemas.Conversation.properties.sandboxId;
    broken.components.schemas.NewsEvent = structuredClone(broken.components.schemas.DoneEvent);
    broken.components.schemas.NewsEvent.properties.type.const = 'news';
    broken.components.schemas.Event.oneOf.push({ $ref: '#/components/schemas/NewsEvent' });
    broken.components.schemas.Event.discriminator.mapping.news = '#/components/schemas/NewsEvent';
    writeFileSync(inModules('broken.json'), JSON.stringify(broken));
    const made = await runTool('openapi-typescript', ['broken.json', '--output', 'broken_schema.ts']);
    assert.equal(made.status, 0, made.all);
    writeFileSync(inModules('broken.ts'), source.replace('./schema', './broken_schema'));
    const { stdout } = await compile('broken.ts');
    assert.match(stdout, /'sandboxId' does not exist/);
    assert.match(stdout, /not assignable to type 'never'/);
});

test('the client talks to the server', async () => {
    const { server } = place;
    const run = await runTool('node', ['client.ts'], { ATOLL_URL: `http://${server.address}`, ATOLL_KEY: server.key });
    assert.equal(run.status, 0, run.all);
    const lines = run.stdout.trim().split('\n');
    assert.match(lines[0], /^active in [a-z0-9]{20}$/);
    assert.ok(lines.some((line) => line.endsWith('turn_start: hello')), run.stdout);
    assert.ok(lines.some((line) => /text_delta: .*hello/.test(line)), run.stdout);
    assert.match(lines.at(-2), /done$/);
    assert.equal(lines.at(-1), 'refused: unknown_agent at /agent');
});
