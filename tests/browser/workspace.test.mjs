// The files and the terminal of the console: a real browser against a real server with real sandboxes.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { callApi, createConversation, newPage, screenshot, send, signIn, startBrowser, startServer, turnsDone } from './lab.mjs';

let server;
let browser;
let context;
let pages = [];

before(async () => {
    server = await startServer();
    browser = await startBrowser();
});
after(async () => {
    await browser?.close();
    await server?.stop();
});
beforeEach(async () => {
    context = await browser.newContext({ viewport: { width: 1180, height: 780 } });
    pages = [];
});
// In every test: no request leaves the origin, no foreign script runs, and the policy refuses nothing.
afterEach(async () => {
    for (const page of pages) {
        for (const url of page.seen.requests) assert.ok(new RegExp(`^((https?|wss?)://${server.address}/|data:image/)`).test(url), `left the origin: ${url}`);
        assert.deepEqual(page.seen.errors, []);
        assert.equal(page.seen.dialogs, 0);
        assert.equal(page.seen.popups, 0);
        assert.deepEqual(await page.evaluate(() => window.violations), []);
    }
    await context.close();
});

const api = (...request) => callApi(server, ...request);

/** A page with an open conversation, and `run(command)` in its sandbox, which gives what it prints. */
async function open(title) {
    const page = await newPage(context);
    pages.push(page);
    await signIn(page, server);
    await createConversation(page, title);
    const id = new URLSearchParams(new URL(page.url()).hash.slice(1)).get('c');
    const { sandboxId } = await api('GET', `/v1/conversations/${id}`);
    const sandbox = `/v1/sandboxes/${sandboxId}`;
    const run = async (command) => (await api('POST', `${sandbox}/exec`, { command })).stdout;
    return { page, sandbox, run };
}

async function openFiles(title) {
    const made = await open(title);
    await made.page.click('#files-tab');
    await made.page.waitForSelector('#tree li');
    return made;
}

const row = (page, path) => page.locator(`#tree [role=treeitem][data-path="${path}"]`);
const shown = (page) => page.$$eval('#tree [role=treeitem]', (all) => all.map((item) => item.dataset.path));
const hasText = (page, id, text) => page.waitForFunction(([name, wanted]) => document.getElementById(name).textContent.includes(wanted), [id, text]);

async function drop(page, target, files) {
    const transfer = await page.evaluateHandle((given) => {
        const made = new DataTransfer();
        for (const [name, text] of given) made.items.add(new File([text], name));
        return made;
    }, files);
    await target.dispatchEvent('dragover', { dataTransfer: transfer });
    await target.dispatchEvent('drop', { dataTransfer: transfer });
}

test('a file that is dropped is uploaded and seen in the tree', async () => {
    const { page, run } = await openFiles('Dropped');
    await hasText(page, 'tree', 'The workspace is empty.');
    await drop(page, page.locator('#tree'), [['notes.txt', 'dropped\n'], ['50%41 <b>.txt', 'odd\n']]);
    await row(page, 'notes.txt').waitFor();
    await hasText(page, 'files-said', 'Uploaded 2 files.');
    assert.equal(await run('cat notes.txt; ls | wc -l; cat "50%41 <b>.txt"'), 'dropped\n2\nodd\n');
    assert.match(await row(page, '50%2541%20%3Cb%3E.txt').textContent(), /^50%41 <b>\.txt/);
    await run('mkdir -p src/lib');
    await row(page, 'src').click();
    await drop(page, row(page, 'src'), [['main.c', 'int main;\n']]);
    await row(page, 'src/main.c').waitFor();
    assert.equal(await run('cat src/main.c'), 'int main;\n');
    // A folder of the machine, by the field.
    await page.setInputFiles('#file-input', [{ name: 'chosen.txt', mimeType: 'text/plain', buffer: Buffer.from('chosen') }]);
    await row(page, 'src/chosen.txt').waitFor();
    await screenshot(page, 'files');
});

test('the watch updates the tree: what changes in the sandbox is seen, and what is gone goes', async () => {
    const { page, run } = await openFiles('Watched');
    assert.equal(page.seen.requests.filter((url) => url.endsWith('/watch')).length, 1);
    await run('mkdir dir; echo one > dir/one; echo two > two');
    await row(page, 'two').waitFor();
    await row(page, 'dir').click();
    await row(page, 'dir/one').waitFor();
    await run('rm two; echo more > dir/more; ln -s /etc/passwd link; mkfifo pipe; printf x > $\'bad\\xff\'');
    await row(page, 'dir/more').waitFor();
    await row(page, 'two').waitFor({ state: 'detached' });
    await row(page, 'bad%FF').waitFor();
    assert.deepEqual(await shown(page), ['dir', 'dir/more', 'dir/one', 'bad%FF', 'link', 'pipe']);
    assert.match(await row(page, 'bad%FF').textContent(), /^bad\ufffd/);
    assert.match(await row(page, 'link').textContent(), /link → \/etc\/passwd/);
    await row(page, 'bad%FF').click();
    await page.waitForFunction(() => document.getElementById('editor-text').value === 'x');
    await row(page, 'pipe').click();
    await hasText(page, 'files-problem', 'has no content to show');
    await row(page, 'link').click();
    await page.waitForSelector('#editor-empty:not([hidden])');
    assert.equal((await page.content()).includes('root:x:0'), false);
});

test('what shells and package managers keep is counted, and shown on a click', async () => {
    const { page, run } = await openFiles('Hidden');
    await hasText(page, 'tree', 'The workspace is empty.');
    assert.equal(await page.isVisible('#files-hidden'), false);
    await run('mkdir .npm .cache; touch .npm/log seen');
    await row(page, 'seen').waitFor();
    await hasText(page, 'files-hidden', '2 hidden');
    assert.deepEqual(await shown(page), ['seen']);
    await page.click('#files-hidden');
    await row(page, '.npm').click();
    await row(page, '.npm/log').waitFor();
    assert.equal(await page.getAttribute('#files-hidden', 'aria-pressed'), 'true');
    // Shown folders are watched, too.
    await run('touch .cache/fresh .bash_history');
    await row(page, '.bash_history').waitFor();
    await screenshot(page, 'files-hidden');
    await page.click('#files-hidden');
    await row(page, '.npm').waitFor({ state: 'detached' });
    await hasText(page, 'files-hidden', '3 hidden');
    assert.deepEqual(await shown(page), ['seen']);
});

test('a file is edited and saved, and a change of someone else is not overwritten silently', async () => {
    const { page, run } = await openFiles('Edited');
    await run("printf 'one\\r\\ntwo\\r\\n' > dos.txt; echo first > shared.txt");
    await row(page, 'dos.txt').click();
    await page.waitForFunction(() => document.getElementById('editor-text').value === 'one\ntwo\n');
    await page.focus('#editor-text');
    await page.keyboard.press('Control+End');
    await page.keyboard.type('three\n');
    await hasText(page, 'editor-facts', 'not saved');
    assert.match(await row(page, 'dos.txt').textContent(), /not saved/);
    await page.keyboard.press('Control+s');
    await page.waitForFunction(() => !document.getElementById('editor-facts').textContent.includes('not saved'));
    assert.equal(await run('od -c dos.txt | head -2'), await run("printf 'one\\r\\ntwo\\r\\nthree\\r\\n' | od -c | head -2"));

    await row(page, 'shared.txt').click();
    await page.waitForFunction(() => document.getElementById('editor-text').value === 'first\n');
    await page.fill('#editor-text', 'mine\n');
    // The typed text stays while another file is looked at.
    await row(page, 'dos.txt').click();
    await hasText(page, 'editor-name', 'dos.txt');
    await run('echo theirs > shared.txt');
    await row(page, 'shared.txt').click();
    await page.waitForFunction(() => document.getElementById('editor-text').value === 'mine\n');
    await page.click('#editor-save');
    await page.waitForSelector('#editor-conflict:not([hidden])');
    assert.equal(await run('cat shared.txt'), 'theirs\n');
    await screenshot(page, 'files-conflict');
    await page.click('#editor-theirs');
    await page.waitForFunction(() => document.getElementById('editor-text').value === 'theirs\n');
    await page.waitForSelector('#editor-conflict', { state: 'hidden' });
    await page.fill('#editor-text', 'mine again\n');
    await run('echo theirs again > shared.txt');
    await page.click('#editor-save');
    await page.waitForSelector('#editor-conflict:not([hidden])');
    await page.click('#editor-mine');
    await page.waitForSelector('#editor-conflict', { state: 'hidden' });
    assert.equal(await run('cat shared.txt'), 'mine again\n');
    // A file that was not changed here follows the sandbox.
    await run('echo newest > shared.txt');
    await page.waitForFunction(() => document.getElementById('editor-text').value === 'newest\n');
});

test('what was typed and not saved goes with its file to another name', async () => {
    const { page, run } = await openFiles('Renamed');
    await run('mkdir dir; echo one > dir/a.txt');
    await row(page, 'dir').click();
    await row(page, 'dir/a.txt').click();
    await page.waitForFunction(() => document.getElementById('editor-text').value === 'one\n');
    await page.fill('#editor-text', 'mine\n');
    await row(page, 'dir').click();
    await page.click('#file-rename');
    await page.waitForSelector('#ask-dialog[open]');
    await page.fill('#ask-name', 'other');
    await page.click('#ask-submit');
    await page.waitForFunction(() => document.getElementById('editor-name').textContent === 'other/a.txt');
    assert.equal(await page.evaluate(() => document.getElementById('editor-text').value), 'mine\n');
    await page.click('#editor-save');
    await page.waitForFunction(() => !document.getElementById('editor-facts').textContent.includes('not saved'));
    assert.equal(await run('cat other/a.txt'), 'mine\n');
});

test('bytes are shown as bytes, a picture as a picture, and of a long file the beginning', async () => {
    const { page, run } = await openFiles('Looked at');
    const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    await run(`head -c 300 /dev/zero > zero; echo ${png} | base64 -d > dot.png; yes long | head -c 3000000 > long.txt; echo '<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=1"/>' > a.svg`);
    await row(page, 'zero').click();
    await hasText(page, 'editor-facts', 'binary');
    assert.match(await page.textContent('#editor-dump'), /^00000000 {2}00 00/);
    assert.equal(await page.isHidden('#editor-text'), true);
    assert.equal(await page.isHidden('#editor-save'), true);
    await row(page, 'dot.png').click();
    await page.waitForFunction(() => document.getElementById('editor-picture').naturalWidth === 1);
    await row(page, 'long.txt').click();
    await hasText(page, 'editor-note', 'Only its beginning is shown');
    assert.equal(await page.evaluate(() => document.getElementById('editor-text').readOnly), true);
    assert.equal(await page.evaluate(() => document.getElementById('editor-text').value.length), 1024 * 1024);
    await row(page, 'a.svg').click();
    await page.waitForFunction(() => document.getElementById('editor-text').value.startsWith('<svg'));
    assert.equal(await page.evaluate(() => window.hacked), undefined);
});

// In one step: between a look at the page and the focus, the tree may be drawn anew.
const focusTree = (page) =>
    page.waitForFunction(() => {
        const item = document.querySelector('#tree [tabindex="0"]');
        item?.focus();
        return item !== null && document.activeElement === item;
    });

test('files are made, renamed, removed and downloaded by the keyboard alone', async () => {
    const { page, run } = await open('By keyboard');
    await page.focus('#chat-tab');
    await page.keyboard.press('ArrowRight');
    await page.waitForSelector('#files-panel:not([hidden])');
    await page.waitForSelector('#tree li');
    const press = async (id) => {
        await page.focus(id);
        await page.keyboard.press('Enter');
    };
    await press('#folder-new');
    await page.waitForSelector('#ask-dialog[open]');
    await page.keyboard.type('a/b');
    await page.keyboard.press('Enter');
    await hasText(page, 'ask-problem', 'no slash');
    await page.fill('#ask-name', 'dir');
    await page.keyboard.press('Enter');
    await row(page, 'dir').waitFor();
    await press('#file-new');
    await page.keyboard.type('new.txt');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.activeElement.id === 'editor-text');
    await page.keyboard.type('typed');
    await page.keyboard.press('Control+s');
    await page.waitForFunction(() => !document.getElementById('editor-facts').textContent.includes('not saved'));
    assert.equal(await run('cat dir/new.txt'), 'typed');
    await focusTree(page);
    assert.equal(await page.evaluate(() => document.activeElement.dataset.path), 'dir/new.txt');
    await page.keyboard.press('F2');
    await page.fill('#ask-name', 'other.txt');
    await page.keyboard.press('Enter');
    await row(page, 'dir/other.txt').waitFor();
    await focusTree(page);
    await page.keyboard.press('ArrowLeft');
    await page.waitForFunction(() => document.activeElement.dataset.path === 'dir');
    const downloading = page.waitForEvent('download');
    await press('#file-download');
    const download = await downloading;
    assert.match(download.suggestedFilename(), /\.zip$/);
    const chunks = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk);
    assert.ok(Buffer.concat(chunks).includes('other.txt'));
    await focusTree(page);
    await page.keyboard.press('Escape');
    await hasText(page, 'file-download', 'Download all');
    assert.equal(await page.isDisabled('#file-delete'), true);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowLeft');
    assert.equal(await row(page, 'dir').getAttribute('aria-expanded'), 'false');
    await page.keyboard.press('Delete');
    await page.waitForSelector('#ask-dialog[open]');
    await page.keyboard.press('Escape');
    assert.equal(await run('ls'), 'dir\n');
    await focusTree(page);
    await page.keyboard.press('Delete');
    await page.waitForSelector('#ask-dialog[open]');
    await page.focus('#ask-submit');
    await page.keyboard.press('Enter');
    await row(page, 'dir').waitFor({ state: 'detached' });
    assert.equal(await run('ls'), '');
    const unnamed = await page.evaluate(() =>
        [...document.querySelectorAll('button, a[href], input, select, textarea, [tabindex]')]
            .filter((element) => element.checkVisibility())
            .filter((element) => !(element.getAttribute('aria-label') || element.textContent.trim() || element.labels?.[0]?.textContent.trim()))
            .map((element) => element.outerHTML),
    );
    assert.deepEqual(unnamed, []);
});

test('names that look encoded, or alike, are shown as they are and lead to their own files', async () => {
    const { page, run } = await openFiles('Odd names');
    await run("printf percent > '50%20off'; printf space > '50 off'; mkdir $'d\\xff' $'d\\xfe'; printf ff > $'d\\xff/f'; printf fe > $'d\\xfe/f'");
    await row(page, 'd%FE').waitFor();
    const name = async (path) => row(page, path).locator('.name').textContent();
    assert.deepEqual(await Promise.all(['d%FE', 'd%FF', '50%20off', '50%2520off'].map(name)), ['d\ufffd', 'd\ufffd', '50 off', '50%20off']);
    const opens = async (path, text) => {
        await row(page, path).click();
        await page.waitForFunction((wanted) => document.getElementById('editor-text').value === wanted, text);
    };
    const rename = async (to) => {
        await page.click('#file-rename');
        await page.waitForSelector('#ask-dialog[open]');
        await page.fill('#ask-name', to);
        await page.click('#ask-submit');
    };
    await opens('50%20off', 'space');
    await opens('50%2520off', 'percent');
    assert.equal(await page.textContent('#editor-name'), '50%20off');
    await rename('%41');
    await row(page, '%2541').waitFor();
    assert.equal(await run('cat %41; test -e A || echo " alone"'), 'percent alone\n');
    // In a folder whose name no text holds.
    for (const path of ['d%FF', 'd%FE']) await row(page, path).click();
    await opens('d%FE/f', 'fe');
    await opens('d%FF/f', 'ff');
    await page.fill('#editor-text', 'written');
    await page.click('#editor-save');
    await page.waitForFunction(() => !document.getElementById('editor-facts').textContent.includes('not saved'));
    await rename('50%20off');
    await row(page, 'd%FF/50%2520off').waitFor();
    assert.equal(await run("cat $'d\\xff/50%20off' $'d\\xfe/f'"), 'writtenfe');
    await drop(page, row(page, 'd%FF'), [['%FF', 'dropped']]);
    await row(page, 'd%FF/%25FF').waitFor();
    await row(page, 'd%FF').click();
    const downloading = page.waitForEvent('download');
    await page.click('#file-download');
    const chunks = [];
    for await (const chunk of await (await downloading).createReadStream()) chunks.push(chunk);
    assert.ok(Buffer.concat(chunks).includes('50%20off'));
    await page.click('#file-delete');
    await page.waitForSelector('#ask-dialog[open]');
    await page.click('#ask-submit');
    await row(page, 'd%FF').waitFor({ state: 'detached' });
    assert.equal(await run('ls -b'), '%41\n50\\ off\nd\\376\n');
});

const PAYLOAD = "document.title='ran';try{localStorage.setItem('hacked','1')}catch{};fetch('/hacked')";
const HOSTILE = {
    'page.html': `<!doctype html><title>quiet</title><script>${PAYLOAD}</script><img src=x onerror="${PAYLOAD}">`,
    'image.svg': `<svg xmlns="http://www.w3.org/2000/svg"><title>quiet</title><script>${PAYLOAD}</script></svg>`,
    'data.xml': `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>quiet</title><script>${PAYLOAD}</script></head></html>`,
};
const TYPES = { 'page.html': 'text/html', 'image.svg': 'image/svg+xml', 'data.xml': 'application/xml' };

test('the bytes of a file never run as the console: HTML, SVG and XML opened by their links', async () => {
    const { page, sandbox } = await openFiles('Opened by link');
    await drop(page, page.locator('#tree'), Object.entries(HOSTILE));
    await hasText(page, 'files-said', 'Uploaded 3 files.');
    const { token } = await api('POST', `${sandbox}/tokens`, { scope: 'files' });
    const plain = createServer((request, response) => {
        const name = request.url.slice(1);
        response.setHeader('Content-Type', TYPES[name] ?? 'text/plain');
        response.end(HOSTILE[name] ?? '');
    });
    await new Promise((done) => plain.listen(0, '127.0.0.1', done));
    try {
        for (const name of Object.keys(HOSTILE)) {
            // The positive control: from a server that sends the bytes as what they are, the script runs.
            const control = await newPage(context);
            await control.goto(`http://127.0.0.1:${plain.address().port}/${name}`);
            await control.waitForFunction(() => localStorage.getItem('hacked') === '1');
            assert.ok(control.seen.requests.some((url) => url.endsWith('/hacked')));
            await control.close();
            for (const more of ['', '&inline=1']) {
                const link = `http://${server.address}${sandbox}/files/${name}?token=${encodeURIComponent(token)}${more}`;
                const opened = await newPage(context);
                const download = opened.waitForEvent('download');
                await assert.rejects(opened.goto(link), /Download is starting|net::ERR_ABORTED/);
                assert.equal((await download).suggestedFilename(), name);
                assert.equal(opened.url(), 'about:blank');
                // Were it shown after all, as what it is: the policy alone keeps it from running.
                await opened.route('**/files/**', async (route) => {
                    const response = await route.fetch();
                    const headers = { ...response.headers(), 'content-type': TYPES[name] };
                    delete headers['content-disposition'];
                    await route.fulfill({ response, headers });
                });
                await opened.goto(link);
                const state = await opened.evaluate(() => {
                    let storage;
                    try {
                        storage = String(localStorage.getItem('hacked'));
                    } catch (error) {
                        storage = error.name;
                    }
                    return { storage, origin: window.origin, ran: document.title === 'ran' };
                });
                assert.deepEqual(state, { storage: 'SecurityError', origin: 'null', ran: false });
                assert.equal(opened.seen.requests.some((url) => url.endsWith('/hacked')), false);
                await opened.close();
            }
        }
        assert.deepEqual(await page.evaluate(() => Object.keys(localStorage)), []);
    } finally {
        plain.close();
    }
});

// --- the terminal

const screenText = (page) => page.$eval('#terminal-screen .xterm-rows', (rows) => [...rows.children].map((line) => line.textContent.replaceAll('\u00a0', ' ').trimEnd()).join('\n'));
const onScreen = (page, text) =>
    page.waitForFunction((wanted) => {
        const rows = document.querySelector('#terminal-screen .xterm-rows');
        return rows !== null && [...rows.children].map((line) => line.textContent.replaceAll('\u00a0', ' ').trimEnd()).join('\n').includes(wanted);
    }, text);

async function openTerminal(title) {
    const made = await open(title);
    await made.page.click('#terminal-tab');
    await made.page.waitForSelector('#terminal-state[data-state=live]');
    await onScreen(made.page, '$');
    return made;
}
const type = async (page, text) => {
    await page.focus('#terminal-screen textarea');
    await page.keyboard.type(`${text}\n`);
};

test('a terminal is typed into, has the size that is seen, and shows colours under the policy', async () => {
    const { page, run } = await openTerminal('Typed into');
    await type(page, 'echo product $((6*7)); tty; echo typed > typed.txt');
    await onScreen(page, '\nproduct 42\n/dev/pts/');
    assert.equal(await run('cat typed.txt'), 'typed\n');
    const size = () => page.evaluate(() => document.querySelectorAll('#terminal-screen .xterm-rows > div').length);
    await type(page, 'clear; echo; stty size');
    await onScreen(page, `\n${await size()} `);
    const before = await size();
    await page.setViewportSize({ width: 900, height: 560 });
    await page.waitForFunction((rows) => document.querySelectorAll('#terminal-screen .xterm-rows > div').length < rows, before);
    await type(page, 'clear; echo; stty size');
    await onScreen(page, `\n${await size()} `);
    await type(page, String.raw`clear; printf '\e[31mred\e[0m \e[38;2;1;2;3mexact\e[0m \e[48;5;21mback\e[0m\n'; echo done`);
    await onScreen(page, '\ndone');
    const colours = await page.$$eval('#terminal-screen .xterm-rows span', (all) =>
        Object.fromEntries(all.map((span) => [span.textContent.trim(), getComputedStyle(span)]).filter(([text]) => ['red', 'exact', 'back'].includes(text)).map(([text, style]) => [text, text === 'back' ? style.backgroundColor : style.color])),
    );
    assert.deepEqual(colours, { red: 'rgb(179, 38, 30)', exact: 'rgb(1, 2, 3)', back: 'rgb(0, 0, 255)' });
    await screenshot(page, 'terminal');
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.waitForFunction(() => getComputedStyle([...document.querySelectorAll('#terminal-screen .xterm-rows span')].find((span) => span.textContent.trim() === 'red')).color === 'rgb(240, 133, 123)');
    await screenshot(page, 'terminal-dark');
});

test('keys reach the program: Ctrl-C, arrows, and Tab; another key leaves the terminal', async () => {
    const { page, run } = await openTerminal('Keys');
    // A program that has printed is in the terminal's foreground; before that, Ctrl-C would reach the shell alone.
    await type(page, `sh -c 'echo "in front"; exec sleep 1000'`);
    await onScreen(page, '\nin front');
    await page.keyboard.press('Control+c');
    await onScreen(page, '^C');
    await type(page, 'echo again > again.txt; echo made');
    await onScreen(page, '\nmade');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('End');
    await page.keyboard.type('; cat aga');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await onScreen(page, '\nmade\nagain\n');
    assert.equal(await run('cat again.txt'), 'again\n');
    await page.keyboard.press('Control+Shift+X');
    await page.waitForFunction(() => document.activeElement.id === 'terminal-new');
    await page.keyboard.press('Shift+Tab');
    assert.notEqual(await page.evaluate(() => document.activeElement.closest('#terminal-screen')?.id), 'terminal-screen');
});

test('what a program prints reaches neither the title, nor the clipboard, nor the keyboard', async () => {
    const { page } = await openTerminal('Reports');
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: `http://${server.address}` });
    await page.evaluate(() => navigator.clipboard.writeText('untouched'));
    const title = await page.title();
    // The positive control: a report that is answered is seen, as of the cursor's place.
    await type(page, String.raw`clear; printf '\e[6n'; IFS= read -rsd R -t 5 answer; printf '%q\n' "$answer"`);
    await onScreen(page, String.raw`$'\E[`);
    await type(page, String.raw`clear; printf '\e]0;stolen\a\e]2;stolen\a\e]52;c;%s\a\e]52;c;?\a\e[21t\e[20t\e[14t\e[18t\e]8;;javascript:alert(1)\alink\e]8;;\a\n' "$(printf stolen | base64)"; IFS= read -rsn1 -t 2 answer; echo "answer:${'$'}{answer:-none}:"`);
    await onScreen(page, '\nanswer:none:');
    assert.equal(await page.title(), title);
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'untouched');
    await page.getByText('link', { exact: true }).first().click({ force: true });
    assert.equal(await page.evaluate(() => document.querySelectorAll('#terminal-screen a').length), 0);
});

test('a shell lives on over a reload and other views, ends, and another one begins', async () => {
    const { page } = await openTerminal('Lives on');
    await type(page, 'secret=kept; echo pid $$');
    await onScreen(page, '\npid ');
    await page.click('#chat-tab');
    assert.equal(await page.isHidden('#terminal-panel'), true);
    await send(page, 'echo beside');
    await turnsDone(page, 1);
    await page.reload();
    await page.waitForSelector('#chat:not([hidden])');
    await page.click('#terminal-tab');
    await page.waitForSelector('#terminal-state[data-state=live]');
    await type(page, 'echo "still $secret"');
    await onScreen(page, '\nstill kept');
    await type(page, 'exit 3');
    await page.waitForSelector('#terminal-state[data-state=exited]');
    await onScreen(page, 'exit 3');
    await page.click('#terminal-new');
    await page.waitForSelector('#terminal-state[data-state=live]');
    await type(page, 'echo "new ${secret:-nothing}"');
    await onScreen(page, '\nnew nothing');
    await page.click('#terminal-end');
    await page.waitForSelector('#terminal-state[data-state=exited]');
});

test('a shell that ended with the server says so and offers a new one, whose prompt has the folder and colours', async () => {
    const own = await startServer();
    try {
        const page = await newPage(context);
        await signIn(page, own);
        await createConversation(page, 'Ended');
        await page.click('#terminal-tab');
        await onScreen(page, '~ $');
        await type(page, 'mkdir inner; ls -d inner; cd inner');
        await onScreen(page, '~/inner $');
        const coloured = (text) => page.$$eval('.xterm-rows span', (all, wanted) => all.some((span) => span.textContent.includes(wanted) && span.className.includes('xterm-fg-')), text);
        assert.equal(await coloured('~/inner'), true);
        assert.equal(await coloured('inner'), true);
        await own.kill();
        await own.startAgain();
        await page.waitForSelector('#terminal-state[data-state=gone]');
        assert.match(await page.textContent('#terminal-note'), /^The shell ended with its sandbox or with the server\./);
        await page.waitForSelector('#terminal-new.primary');
        await screenshot(page, 'terminal-ended');
        await page.click('#terminal-new');
        await page.waitForSelector('#terminal-state[data-state=live]');
        await onScreen(page, '~ $');
        assert.equal(await page.isHidden('#terminal-note'), true);
        assert.deepEqual(page.seen.errors, []);
    } finally {
        await own.stop();
    }
});

test('a flood of output is shown to its end, and the page stays alive', async () => {
    const { page } = await openTerminal('Flood');
    await type(page, 'clear; seq 2000000 | tail -c 20000000; echo the-end');
    await onScreen(page, '\n2000000\nthe-end');
    assert.match(await screenText(page), /1999999/);
});

test('a server without the package of the terminal shows none', async () => {
    const page = await newPage(context);
    pages.push(page);
    await page.route('**/v1/system', async (route) => {
        const response = await route.fetch();
        const system = await response.json();
        assert.equal(system.console.terminal, true);
        await route.fulfill({ response, json: { ...system, console: { terminal: false } } });
    });
    await signIn(page, server);
    await createConversation(page, 'No terminal');
    assert.equal(await page.isHidden('#terminal-tab'), true);
    assert.equal(await page.isVisible('#files-tab'), true);
});

for (const [name, options] of [
    ['dark', { colorScheme: 'dark', viewport: { width: 1180, height: 780 } }],
    ['phone', { colorScheme: 'light', viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }],
])
    test(`files and terminal fit and read well: ${name}`, async () => {
        await context.close();
        context = await browser.newContext(options);
        const { page, run } = await openFiles('A look at the files of a workspace');
        await run('mkdir -p src/deep/deeper; echo "# Plan" > plan.md; echo x > src/deep/a-file-with-quite-a-long-name-that-does-not-fit.txt');
        for (const path of ['src', 'src/deep']) await row(page, path).click();
        await row(page, 'plan.md').click();
        await page.waitForFunction(() => document.getElementById('editor-text').value === '# Plan\n');
        const fits = async () => {
            const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
            assert.ok(wide <= window, `${wide} > ${window}`);
        };
        await fits();
        await screenshot(page, `files-${name}`);
        await page.click('#terminal-tab');
        await page.waitForSelector('#terminal-state[data-state=live]');
        await onScreen(page, '$');
        await fits();
        await screenshot(page, `terminal-${name}-fit`);
    });
