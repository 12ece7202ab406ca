// `redocly lint` has nothing to say about the document.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { makeFolder } from '../node_support/server.mjs';
import { runTool, startDescribed } from './tools.mjs';

const CONFIG = fileURLToPath(new URL('redocly.yaml', import.meta.url));

let place;
let folder;
before(async () => {
    folder = makeFolder();
    place = await startDescribed();
});
after(async () => {
    await place?.server.stop();
    if (folder !== undefined) rmSync(folder, { recursive: true });
});

/** The problems that redocly finds in `document`: "severity rule: message at place". */
async function lint(document, options = []) {
    const file = path.join(folder, 'openapi.json');
    writeFileSync(file, JSON.stringify(document));
    const { status, stdout, all } = await runTool('redocly', ['lint', file, '--format', 'json', '--max-problems', '1000', ...options]);
    const begin = stdout.indexOf('{');
    assert.ok(begin >= 0, all);
    const { totals, problems } = JSON.parse(stdout.slice(begin, stdout.lastIndexOf('}') + 1));
    assert.equal(status, totals.errors === 0 ? 0 : 1, all);
    return problems.map(({ ruleId, severity, message, location }) => `${severity} ${ruleId}: ${message} at ${location[0].pointer}`);
}

const withConfig = (document) => lint(document, ['--config', CONFIG]);

test('the recommended rules are satisfied, also by examples: no errors, no warnings', async () => {
    assert.deepEqual(await withConfig(place.document), []);
});

test('without a configuration there is nothing to report either', async () => {
    assert.deepEqual(await lint(place.document), []);
});

/** The problems of the document after `change`. */
async function lintBroken(change) {
    const broken = structuredClone(place.document);
    change(broken);
    return (await withConfig(broken)).join('\n');
}

test('a property that the schema of an example has not is reported', async () => {
    const problems = await lintBroken(({ components }) => {
        delete components.schemas.Conversation.properties.sandboxId;
    });
    assert.match(problems, /no-invalid-media-type-examples: .*sandboxId/);
});

test('an example with a value of another type is reported', async () => {
    const problems = await lintBroken(({ paths }) => {
        paths['/v1/conversations'].post.responses[201].content['application/json'].example.lastSeq = 'two';
    });
    assert.match(problems, /no-invalid-media-type-examples: .*lastSeq/);
});

test('a parameter without a description, an unused schema and a dangling reference are reported', async () => {
    const problems = await lintBroken(({ paths, components }) => {
        delete paths['/v1/conversations'].get.parameters[0].description;
        components.schemas.Unused = { type: 'string' };
        components.schemas.EventPage.properties.events.items.$ref = '#/components/schemas/Nothing';
    });
    for (const rule of ['parameter-description', 'no-unused-components', 'no-unresolved-refs']) assert.match(problems, new RegExp(rule));
});
