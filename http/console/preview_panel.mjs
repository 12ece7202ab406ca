// The page that the sandbox serves, in a frame beside the chat. The frame is another origin: nothing here can look into
// it, so it cannot be known whether its dev server renews the page by itself. Reloading with each change of a file is a
// choice, and off at first: it would cost a page with hot reload its state.
import { button, options } from './dom.mjs';
import { Ports, portsWith, previewUrl } from './ports.mjs';

const SETTLE_MS = 250; // a log that is replayed opens and closes ports at once
const RELOAD_MS = 500; // after the last of several changes

export class PreviewPanel {
    #api;
    #at;
    #on;
    #conversation;
    #ports = new Ports();
    #port = null; // in the frame
    #url = null;
    #isLost = false; // the port in the frame was closed since its page was loaded
    #closed = new Set(); // the user closed them, and they are open still
    #settle = null;
    #reloading = null;
    #abort = new AbortController();

    /** `on`: {tell(text), resume(), closed()}. */
    constructor(api, conversation, at, on) {
        this.#api = api;
        this.#conversation = conversation;
        this.#at = at;
        this.#on = on;
        const { signal } = this.#abort;
        const click = (element, act) => element.addEventListener('click', act, { signal });
        click(at.previewReload, () => this.#load());
        click(at.previewClose, () => this.#close());
        click(at.veilClose, () => this.#close());
        click(at.veilResume, () => this.#on.resume());
        click(at.previewOpen, (event) => this.#openTab(event));
        at.previewPort.addEventListener('change', () => this.#show(Number(at.previewPort.value)), { signal });
        at.previewFollow.checked = false;
        this.#render();
    }

    destroy() {
        this.#abort.abort();
        clearTimeout(this.#settle);
        clearTimeout(this.#reloading);
        this.#ports = new Ports();
        this.#blank();
        this.#render();
    }

    update(conversation) {
        this.#conversation = conversation;
    }

    /** The log begins anew. */
    reset() {
        this.#ports = new Ports();
        this.#changed();
    }

    event(event) {
        if (event.type === 'files_changed' && this.#at.previewFollow.checked && this.#port !== null) {
            clearTimeout(this.#reloading);
            this.#reloading = setTimeout(() => this.#load(), RELOAD_MS);
        }
        if (event.type === 'port_closed') this.#closed.delete(event.data?.port);
        if (this.#ports.apply(event)) this.#changed();
    }

    #changed() {
        clearTimeout(this.#settle);
        this.#settle = setTimeout(() => this.#look(), SETTLE_MS);
    }

    #look() {
        const shown = new Map(this.#ports.shown);
        // A server that was restarted at once keeps its page. One that was away for longer may not know the page any more.
        // That of a frozen one goes on where it was.
        const isEmpty = this.#at.previewFrame.childElementCount === 0;
        if (shown.has(this.#port) && (this.#isLost || isEmpty || shown.get(this.#port) !== this.#url)) this.#show(this.#port);
        if (this.#port === null) {
            const next = [...shown.keys()].find((port) => !this.#closed.has(port));
            if (next !== undefined) this.#show(next);
        }
        this.#render();
    }

    #show(port) {
        const found = this.#ports.shown.find(([one]) => one === port);
        if (found === undefined) return;
        [this.#port, this.#url] = found;
        this.#closed.delete(port);
        this.#isLost = false;
        if (this.#ports.closedBy(port) !== null) this.#at.previewFrame.replaceChildren();
        this.#load();
        this.#render();
    }

    #close() {
        if (this.#port !== null) this.#closed.add(this.#port);
        this.#blank();
        this.#render();
    }

    #blank() {
        this.#port = null;
        this.#url = null;
        this.#at.previewFrame.replaceChildren();
    }

    get #isPrivate() {
        return this.#conversation.preview?.access === 'private';
    }

    // The frame's pass is the frame's alone: a tab needs one of its own.
    async #openTab(event) {
        if (!this.#isPrivate || this.#url === null) return;
        event.preventDefault();
        const address = await this.#enter(this.#url);
        if (address !== null) window.open(address, '_blank', 'noopener,noreferrer');
    }

    async #load() {
        const url = this.#url;
        if (url === null || this.#ports.closedBy(this.#port) !== null) return;
        const address = this.#isPrivate ? await this.#enter(url) : url;
        if (address === null || this.#url !== url || this.#abort.signal.aborted) return;
        const frame = document.createElement('iframe');
        frame.title = `Port ${this.#port} of the sandbox`;
        frame.referrerPolicy = 'no-referrer';
        frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms allow-modals allow-popups allow-downloads');
        frame.src = address;
        this.#at.previewFrame.replaceChildren(frame);
    }

    /** The address with a token, at the host name of this port; null after an error, which was told. */
    async #enter(url) {
        let made;
        try {
            made = await this.#api.previewToken(this.#conversation.id);
        } catch (error) {
            if (!this.#abort.signal.aborted) this.#on.tell(error.message);
            return null;
        }
        const entry = previewUrl(made.url);
        if (entry === null) return url;
        const { pathname, search } = new URL(entry);
        return new URL(pathname + search, url).href;
    }

    async #list(port) {
        const ports = portsWith(this.#conversation, port);
        if (ports === null) return this.#on.tell('This sandbox has no preview.');
        try {
            this.#conversation = await this.#api.patch(this.#conversation.id, { preview: { ports } });
        } catch (error) {
            if (!this.#abort.signal.aborted) this.#on.tell(error.message);
            return;
        }
        // The frame may be that of another conversation by now.
        if (this.#abort.signal.aborted) return;
        this.#blank();
        this.#closed.clear();
        this.#closed = new Set(this.#ports.shown.map(([one]) => one).filter((one) => one !== port));
        this.#changed();
    }

    #render() {
        const { preview, previewPort, previewOpen, previewOffer, previewFrame, veil, veilText, veilResume, previewTab, chat } = this.#at;
        const shown = this.#ports.shown;
        const isShown = this.#port !== null;
        if (!isShown && !preview.hidden) this.#on.closed();
        preview.hidden = previewTab.hidden = !isShown;
        chat.classList.toggle('with-preview', isShown);
        const closed = isShown ? this.#ports.closedBy(this.#port) : null;
        previewFrame.inert = closed !== null;
        veil.hidden = closed === null;
        if (closed !== null) veilText.textContent = closed.text;
        veilResume.hidden = closed?.canResume !== true;
        const isGone = isShown && !shown.some(([port]) => port === this.#port);
        this.#isLost ||= isGone;
        const ports = isGone ? [...shown, [this.#port, this.#url]] : shown;
        previewPort.replaceChildren(...options(ports.map(([port]) => [port, `Port ${port}`]), this.#port));
        if (isShown) previewOpen.href = this.#url;
        else previewOpen.removeAttribute('href');
        const offers = [];
        const offer = (port, act) => offers.push(button(`Show port ${port}`, act, { signal: this.#abort.signal }));
        if (!this.#abort.signal.aborted) {
            if (!isShown) for (const [port] of shown) offer(port, () => this.#show(port));
            if (portsWith(this.#conversation, 1) !== null) for (const port of this.#ports.hidden) offer(port, () => this.#list(port));
        }
        previewOffer.hidden = offers.length === 0;
        previewOffer.replaceChildren(...offers);
    }
}
