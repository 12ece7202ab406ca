// The open conversation: follows its log, shows it, sends messages, and keeps badges and buttons up to date. The page shows
// a single conversation: an answer that comes after destroy() must not be shown, since another one may be there by then.
import { button, h } from './dom.mjs';
import { Files } from './files.mjs';
import { Follower, isAboutKey } from './follower.mjs';
import { Gauges } from './gauges.mjs';
import { History } from './history.mjs';
import { actionsOf, connectionOf, enforcementOf, limitsOf, nameOf, statusOf } from './labels.mjs';
import { Pictures } from './pictures.mjs';
import { startersOf } from './starters.mjs';
import { Transcript } from './transcript.mjs';
import { chooseTransport } from './transport.mjs';
import { TranscriptView } from './view.mjs';

const REFETCH_MS = 200; // after an event that changes the conversation
// Why a message waits, by its state.
const WAITS = { server: 'Waits for the server.', turn: 'Waits until the turn before it is done.' };
const ESCAPE_MS = 2500; // between the two Esc that stop a turn

export class Chat {
    #api;
    #id;
    #drafts;
    #outbox;
    #bubbles = new Map(); // message of the outbox -> what shows it
    #at;
    #on;
    #conversation = null;
    #transcript = new Transcript();
    #view = null;
    #gauges;
    #follower = null;
    #transport = 'sse';
    #busy = false;
    #wasAsked = false; // the log may not have it yet
    #escapeAt = -Infinity;
    #hint = null;
    #history = new History();
    #pictures;
    #refetch = null; // the timer, or null while the conversation is known as it is
    #listeners = new AbortController();

    /** `drafts`: Drafts. `outbox`: Outbox. `at`: elements by name. `on`: {changed(conversation), gone(), say(text), event(event), reset(), raise(limit)}. */
    constructor(api, conversation, drafts, outbox, at, on) {
        this.#api = api;
        this.#id = conversation.id;
        this.#drafts = drafts;
        this.#outbox = outbox;
        this.#at = at;
        this.#on = on;
        at.chat.hidden = false;
        this.showUnsent(null);
        at.starters.hidden = true;
        at.starters.replaceChildren();
        this.#conversation = conversation;
        const { signal } = this.#listeners;
        const files = new Files(api, conversation.sandboxId);
        const mayLook = () => this.#refetch === null && this.#conversation.status === 'active';
        this.#pictures = new Pictures(files, (turn, picture) => this.#view.picture(turn, picture), mayLook, signal);
        this.#makeView(conversation);
        outbox.on = (item) => this.#showWaiting(item);
        outbox.isOpen = () => this.#isTurnOpen;
        this.#gauges = new Gauges(at.usage, () => api.usage(conversation.sandboxId), this.#listeners.signal);
        this.update(conversation);
        this.#listen();
        const open = chooseTransport(
            { api, id: this.#id, drained: () => this.#view.drained(), location, WebSocket: globalThis.WebSocket },
            (choice) => (this.#transport = choice),
        );
        this.#follower = new Follower({
            open,
            epoch: conversation.logEpoch,
            timers: { set: (act, ms) => setTimeout(act, ms), clear: (handle) => clearTimeout(handle) },
            on: {
                event: (event) => this.#event(event),
                state: (state) => this.#connection(state),
                reset: () => this.#reset(),
            },
        });
        this.#follower.start();
    }

    get id() {
        return this.#id;
    }

    /** Brings the element of an event into view. */
    reveal(seq) {
        this.#view.reveal(seq);
    }

    get lastAsked() {
        return this.#history.last;
    }

    destroy() {
        this.#listeners.abort();
        this.#follower.stop();
        this.#outbox.on = () => {};
        this.#outbox.isOpen = () => false;
        this.#outbox.hurry();
        this.#view.destroy();
        clearTimeout(this.#refetch);
        this.#endHint();
        this.#at.message.value = '';
        this.#at.chat.hidden = true;
    }

    get #isDestroyed() {
        return this.#listeners.signal.aborted;
    }

    get #isTurnOpen() {
        // A long log may still be on its way.
        return this.#transcript.openTurn !== null || this.#conversation.openTurn !== null;
    }

    #makeView(conversation) {
        const { log, turns, waiting, folded, latest } = this.#at;
        const onStuck = (stuck) => (latest.hidden = stuck);
        const terminal = conversation.agent === 'shell';
        const onRaise = (limit) => this.#on.raise(limit);
        this.#view = new TranscriptView({ scroller: log, root: turns, waiting, folded, terminal, onStuck, onRaise });
        this.#bubbles.clear();
        for (const item of this.#outbox.items) this.#showWaiting(item);
    }

    #listen() {
        const { signal } = this.#listeners;
        const on = (element, type, act) => element.addEventListener(type, act, { signal });
        const { composer, message, stop, freeze, pause, latest } = this.#at;
        on(composer, 'submit', (event) => {
            event.preventDefault();
            this.#send();
        });
        on(message, 'keydown', (event) => {
            if (event.key === 'ArrowUp' || event.key === 'ArrowDown') return this.#recall(event);
            if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            this.#send();
        });
        on(message, 'input', () => {
            this.#drafts.setMessage(this.#id, message.value);
            this.#history.reset();
            this.#fit();
        });
        on(stop, 'click', () => this.#interrupt());
        on(freeze, 'click', () => this.#act('freeze'));
        on(pause, 'click', () => this.#act(pause.dataset.act));
        on(latest, 'click', () => this.#view.toEnd());
        on(document, 'keydown', (event) => this.#escape(event));
        on(window, 'online', () => this.#follower.hurry());
        on(document, 'visibilitychange', () => {
            if (!document.hidden) this.#follower.hurry();
        });
    }

    #fit() {
        const { message } = this.#at;
        message.style.height = 'auto';
        message.style.height = `${message.scrollHeight + 2}px`;
    }

    #reset() {
        this.#at.starters.hidden = true;
        this.#on.reset();
        this.#pictures.reset();
        this.#refetchSoon();
        this.#view.destroy();
        this.#transcript = new Transcript();
        this.#makeView(this.#conversation);
    }

    #event(event) {
        const before = this.#transcript.openTurn;
        const operations = this.#transcript.apply(event);
        this.#on.event(event);
        this.#view.push(operations);
        for (const operation of operations) {
            if (operation.op === 'changed') this.#refetchSoon();
            if (operation.op === 'question') this.#history.add(operation.text);
            if (operation.op === 'end' && event.seq > this.#conversation.lastSeq) this.#on.say(operation.failed ? 'The turn failed.' : 'The turn is done.');
            if (operation.op === 'question') this.#pictures.begin(operation.turn, event.at);
            if (operation.op === 'end') {
                this.#pictures.end(operation.turn, event.at);
                if (this.#conversation.openTurn?.turn === operation.turn) this.#conversation.openTurn = null;
                this.#refetchSoon();
            }
        }
        if (before !== this.#transcript.openTurn) this.#buttons();
        this.#offerStarters();
    }

    // Only once the log was read to its end is it known that nothing was asked.
    #offerStarters() {
        const { starters, message } = this.#at;
        const isRead = this.#follower !== null && this.#follower.last >= this.#conversation.lastSeq;
        const isEmpty = isRead && this.#conversation.firstSeq <= 1 && this.#transcript.isEmpty && this.#outbox.items.length === 0 && !this.#wasAsked;
        starters.hidden = !isEmpty || this.#conversation.status === 'ended';
        if (!isEmpty || starters.childElementCount > 0) return;
        const ask = (text) => () => {
            this.#outbox.add(text);
            if (matchMedia('(hover: hover)').matches) message.focus({ preventScroll: true });
        };
        starters.replaceChildren(...startersOf(this.#conversation).map(({ label, text }) => button(label, ask(text))));
    }

    #connection(state) {
        const { text, tone } = connectionOf(state, this.#transport);
        const { connection, chat } = this.#at;
        connection.textContent = text;
        connection.className = `badge connection dot ${tone}`;
        connection.dataset.state = state.name;
        if (state.name === 'stopped' && !isAboutKey(state.code)) this.#on.gone(this.#id, state);
        chat.dataset.connection = state.name;
        if (state.name !== 'live') return;
        // It may have changed while no stream was open.
        this.#refetchSoon();
        this.#outbox.hurry();
    }

    #refetchSoon() {
        clearTimeout(this.#refetch);
        const timer = setTimeout(async () => {
            try {
                const conversation = await this.#api.get(this.#id);
                if (this.#isDestroyed) return;
                if (this.#refetch === timer) this.#refetch = null;
                this.update(conversation);
                this.#pictures.look();
            } catch {
                // The stream reports the error.
            }
        }, REFETCH_MS);
        this.#refetch = timer;
    }

    /** Shows the conversation as it is now. */
    update(conversation) {
        this.#conversation = conversation;
        this.#gauges.follow(conversation);
        const { title, status, facts, factsSummary, factsList } = this.#at;
        title.textContent = nameOf(conversation);
        document.title = `${nameOf(conversation)} – Atoll`;
        const shown = statusOf(conversation);
        status.textContent = shown.text;
        status.className = `badge ${shown.tone}`;
        const { summary, tone, facts: list } = enforcementOf(conversation.enforcement, this.#on.notEnforced?.());
        factsSummary.replaceChildren(h('span', `badge ${tone}`, summary));
        facts.dataset.tone = tone;
        const pairs = list.map(({ name, value, warning }) => [name, value, warning]);
        pairs.push(...limitsOf(conversation.limits), ['agent', conversation.agent], ['generation', `${conversation.generation}`], ['id', conversation.id]);
        factsList.replaceChildren(
            ...pairs.map(([name, value, warning]) => {
                const row = h('div');
                row.append(h('dt', '', name), h('dd', warning ? 'warn' : '', value));
                return row;
            }),
        );
        this.#buttons();
        this.#on.changed(conversation);
    }

    #buttons() {
        const { send, stop, freeze, pause, message } = this.#at;
        const may = actionsOf(this.#conversation, this.#isTurnOpen);
        send.disabled = !may.send;
        stop.hidden = !may.stop;
        freeze.hidden = !may.freeze;
        freeze.disabled = this.#busy;
        pause.textContent = may.resume ? 'Resume' : 'Pause';
        pause.dataset.act = may.resume ? 'resume' : 'pause';
        pause.disabled = this.#busy || !(may.pause || may.resume);
        message.placeholder = this.#conversation.agent === 'shell' ? 'A command' : 'Message';
        if (this.#isTurnOpen) return;
        this.#endHint();
        this.#outbox.hurry();
    }

    #fail(error) {
        const { sendError } = this.#at;
        sendError.hidden = error === null;
        sendError.textContent = error === null ? '' : error.message;
    }

    /** The message that is being typed, as it is among the drafts, and why it was not sent. */
    showUnsent(error) {
        this.#at.message.value = this.#drafts.message(this.#id);
        this.#fit();
        this.#fail(error);
    }

    #send() {
        const { message, send } = this.#at;
        const text = message.value;
        if (text.trim() === '' || send.disabled) return;
        this.#drafts.setMessage(this.#id, '');
        this.showUnsent(null);
        this.#outbox.add(text);
    }

    // The arrow keys bring back what was asked before, where the caret cannot go further.
    #recall(event) {
        const { message } = this.#at;
        const { value, selectionStart, selectionEnd } = message;
        const isUp = event.key === 'ArrowUp';
        const beyond = isUp ? value.slice(0, selectionStart) : value.slice(selectionEnd);
        if (event.shiftKey || event.isComposing || beyond.includes('\n')) return;
        const text = isUp ? this.#history.older(value) : this.#history.newer();
        if (text === null) return;
        event.preventDefault();
        message.value = text;
        this.#drafts.setMessage(this.#id, text);
        this.#fit();
    }

    // A message in each of its states, until the log has it.
    #showWaiting(item) {
        if (!this.#bubbles.has(item)) this.#bubbles.set(item, this.#view.ask(item.text));
        const bubble = this.#bubbles.get(item);
        this.#offerStarters();
        bubble.say(WAITS[item.state] ?? '', () => this.#takeBack(item));
        if (item.state !== 'accepted' && item.state !== 'gone') return;
        this.#bubbles.delete(item);
        this.#wasAsked ||= item.state === 'accepted';
        this.#offerStarters();
        if (item.state === 'gone') return bubble.remove();
        bubble.settle(item.turn);
        this.#refetchSoon();
    }

    #takeBack(item) {
        const text = this.#outbox.take(item);
        if (text === null) return;
        this.#drafts.giveBack(this.#id, text);
        this.showUnsent(null);
        this.#at.message.focus();
    }

    async #interrupt() {
        try {
            await this.#api.act(this.#id, 'interrupt');
            if (!this.#isDestroyed) this.#on.say('Asked the turn to stop.');
        } catch (error) {
            if (!this.#isDestroyed && error.code !== 'no_turn') this.#fail(error);
        }
    }

    // Two presses of Esc stop the turn: a single one is easily an accident, or meant for something else.
    #escape(event) {
        if (event.key !== 'Escape' || event.isComposing || this.#at.stop.hidden) return;
        // In another view it belongs to that.
        if (document.querySelector('dialog[open]') !== null || this.#at.chat.dataset.tab !== 'chat') return;
        const now = performance.now();
        if (now - this.#escapeAt > ESCAPE_MS) {
            this.#escapeAt = now;
            this.#at.keys.textContent = 'Press Esc again to stop the turn.';
            this.#on.say('Press Escape again to stop the turn.');
            clearTimeout(this.#hint);
            this.#hint = setTimeout(() => this.#endHint(), ESCAPE_MS);
            return;
        }
        this.#escapeAt = -Infinity;
        this.#interrupt();
    }

    #endHint() {
        clearTimeout(this.#hint);
        this.#at.keys.textContent = this.#at.keys.dataset.text;
    }

    async #act(what) {
        this.#busy = true;
        this.#fail(null);
        this.#buttons();
        try {
            const conversation = await this.#api.act(this.#id, what);
            if (this.#isDestroyed) return;
            this.update(conversation);
        } catch (error) {
            if (this.#isDestroyed) return;
            this.#fail(error);
        }
        this.#busy = false;
        this.#buttons();
    }

    resume() {
        return this.#act('resume');
    }

    /** Deletes it on the server. Throws ApiError. */
    async remove() {
        await this.#api.remove(this.#id);
    }
}
