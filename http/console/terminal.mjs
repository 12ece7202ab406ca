// The terminal: a shell in the open conversation's sandbox, on the screen of @xterm/xterm, which the server has if its
// build had the package. The shell lives on when the page goes, and is found again.
import { ProcessStream } from './process_stream.mjs';
import { keepStylesStrict } from './strict_styles.mjs';
import { h } from './dom.mjs';

const SCROLLBACK = 5000; // lines
// OSC sequences that are refused: they set the title and icon name (0 to 2) or the clipboard (52), or make links (8).
const REFUSED_OSC = [0, 1, 2, 8, 52];
const timers = { set: (act, ms) => setTimeout(act, ms), clear: (handle) => clearTimeout(handle) };

const STATES = {
    connecting: { text: 'connecting…', tone: '' },
    live: { text: 'live', tone: 'good' },
    waiting: { text: 'reconnecting…', tone: 'warn' },
    exited: { text: 'ended', tone: '' },
    gone: { text: 'gone', tone: '' },
};

export class TerminalPanel {
    #at;
    #processes;
    #tell;
    #screen = null;
    #stream = null;
    #processId = null;
    #isBusy = false;
    #endStrictStyles = () => {};
    #signal;

    /** `at`: {terminalScreen, terminalState, terminalNew, terminalEnd, terminalNote}. `processes`: Processes. */
    constructor(at, processes, { signal, tell }) {
        this.#at = at;
        this.#processes = processes;
        this.#tell = tell;
        this.#signal = signal;
        const on = (element, type, act) => element.addEventListener(type, act, { signal });
        on(at.terminalNew, 'click', () => this.#begin('new'));
        on(at.terminalEnd, 'click', () => this.#end());
        on(window, 'online', () => this.#stream?.hurry());
        on(matchMedia('(prefers-color-scheme: dark)'), 'change', () => {
            if (this.#screen !== null) this.#screen.options.theme = themeOf(document.documentElement);
        });
        const resizes = new ResizeObserver(() => this.#fit());
        resizes.observe(at.terminalScreen);
        signal.addEventListener('abort', () => {
            resizes.disconnect();
            this.#stream?.stop();
            this.#screen?.dispose();
            at.terminalScreen.replaceChildren();
            this.#endStrictStyles();
        });
        this.#state({ name: 'connecting', detail: '' });
    }

    /** The panel can be seen now. */
    async show() {
        if (this.#screen === null && !this.#isBusy) await this.#begin('found');
        if (this.#signal.aborted) return;
        this.#fit();
        this.#screen?.focus();
    }

    // `which`: a shell that runs already, if there is one, or a new one.
    async #begin(which) {
        if (this.#isBusy) return;
        this.#isBusy = true;
        this.#buttons();
        try {
            await this.#makeScreen();
            if (this.#signal.aborted) return;
            const found = which === 'found' ? await this.#processes.findShell() : null;
            if (this.#signal.aborted) return;
            const size = { cols: this.#screen.cols, rows: this.#screen.rows };
            this.#processId = found ?? (await this.#processes.startShell(size));
            // A shell that was just started is found when its terminal is opened again.
            if (this.#signal.aborted) return;
            this.#attach();
        } catch (error) {
            if (this.#signal.aborted) return;
            this.#state({ name: 'gone', detail: error.message });
        }
        this.#isBusy = false;
        this.#buttons();
    }

    async #makeScreen() {
        const { Terminal } = await import('./xterm.mjs');
        await loadStyle('/console/xterm.css');
        if (this.#signal.aborted) return;
        this.#stream?.stop();
        this.#screen?.dispose();
        const box = this.#at.terminalScreen;
        box.replaceChildren();
        // For as long as there is a screen: it makes elements whenever something is to be seen.
        this.#endStrictStyles();
        this.#endStrictStyles = keepStylesStrict(document);
        const style = getComputedStyle(document.documentElement);
        const screen = new Terminal({
            scrollback: SCROLLBACK,
            fontFamily: style.getPropertyValue('--mono').trim(),
            fontSize: 14,
            theme: themeOf(document.documentElement),
            linkHandler: { activate() {} },
            windowOptions: {},
            macOptionIsMeta: true,
        });
        for (const code of REFUSED_OSC) screen.parser.registerOscHandler(code, () => true);
        // Tab is the shell's, so there is another way out.
        screen.attachCustomKeyEventHandler((event) => {
            if (!(event.ctrlKey && event.shiftKey && event.code === 'KeyX')) return true;
            event.preventDefault();
            if (event.type === 'keydown') this.#at.terminalNew.focus();
            return false;
        });
        screen.open(box);
        this.#screen = screen;
        const encoder = new TextEncoder();
        screen.onData((text) => this.#stream?.send(encoder.encode(text)));
        screen.onBinary((text) => this.#stream?.send(Uint8Array.from(text, (one) => one.charCodeAt(0))));
        screen.onResize(({ cols, rows }) => this.#stream?.resize(cols, rows));
        this.#fit();
    }

    #attach() {
        const screen = this.#screen;
        const processId = this.#processId;
        this.#stream = new ProcessStream({
            connect: (after) => this.#processes.connect(processId, after),
            timers,
            on: {
                output: (bytes, shown) => screen.write(bytes, shown),
                dropped: (count) => screen.write(`\r\n\x1b[2m[${count} bytes of output were not kept]\x1b[0m\r\n`),
                exit: ({ exitCode, signal }) => {
                    const how = signal === null ? `exit ${exitCode ?? '?'}` : `signal ${signal}`;
                    screen.write(`\r\n\x1b[2m[the shell ended: ${how}]\x1b[0m\r\n`);
                },
                state: (state) => this.#state(state),
            },
        });
        this.#stream.resize(screen.cols, screen.rows);
        this.#stream.start();
        screen.focus();
    }

    async #end() {
        try {
            await this.#processes.hangUp(this.#processId);
        } catch (error) {
            if (!this.#signal.aborted) this.#tell(error.message);
        }
    }

    #state({ name, detail }) {
        const { text, tone } = STATES[name];
        const { terminalState, terminalNote } = this.#at;
        terminalState.textContent = text;
        terminalState.className = `badge dot ${tone}`;
        terminalState.dataset.state = name;
        terminalNote.hidden = detail === '';
        terminalNote.textContent = detail;
        if (name === 'exited' || name === 'gone') this.#processId = null;
        this.#buttons();
    }

    #buttons() {
        const { terminalNew } = this.#at;
        terminalNew.disabled = this.#isBusy;
        // The only thing to do where no shell is left.
        terminalNew.classList.toggle('primary', !this.#isBusy && this.#processId === null);
        this.#at.terminalEnd.disabled = this.#isBusy || this.#processId === null;
    }

    // Gives the screen as many columns and rows as fit. The size of a character is measured.
    #fit() {
        const box = this.#at.terminalScreen;
        const shown = box.querySelector('.xterm-screen');
        if (this.#screen === null || shown === null || box.clientWidth === 0) return;
        const { width, height } = shown.getBoundingClientRect();
        if (width === 0 || height === 0) return;
        const style = getComputedStyle(box);
        const free = (size, one, other) => size - parseFloat(style[one]) - parseFloat(style[other]);
        const scrollbar = 14;
        const cols = Math.floor((free(box.clientWidth, 'paddingLeft', 'paddingRight') - scrollbar) / (width / this.#screen.cols));
        const rows = Math.floor(free(box.clientHeight, 'paddingTop', 'paddingBottom') / (height / this.#screen.rows));
        if (cols > 1 && rows > 0) this.#screen.resize(Math.min(cols, 500), Math.min(rows, 200));
    }
}

/** The colours of the page as those of a terminal. */
function themeOf(element) {
    const style = getComputedStyle(element);
    const value = (name) => style.getPropertyValue(`--${name}`).trim();
    const theme = { background: value('card'), foreground: value('ink'), cursor: value('accent'), cursorAccent: value('card') };
    theme.selectionBackground = value('tint');
    const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
    names.forEach((name, index) => {
        theme[name] = value(`t${index}`);
        theme[`bright${name[0].toUpperCase()}${name.slice(1)}`] = value(`t${index + 8}`);
    });
    return theme;
}

let style = null;
function loadStyle(address) {
    style ??= new Promise((done, fail) => {
        const link = h('link');
        link.rel = 'stylesheet';
        link.href = address;
        link.onload = done;
        link.onerror = () => fail(new Error('The terminal cannot be loaded.'));
        document.head.append(link);
    });
    return style;
}
