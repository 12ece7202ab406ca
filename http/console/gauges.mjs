// The usage of the open conversation's sandbox, as four small graphs with their numbers in words. Asked for while the
// sandbox runs and the page is seen (usage.mjs). Folded into the facts while nothing is near its limit.
import { areaOf, Notice, Poller, Usage } from './usage.mjs';
import { h } from './dom.mjs';

const WIDTH = 118;
const HEIGHT = 20;
const NAMES = { memory: 'Memory', cpu: 'CPU', processes: 'Processes', disk: 'Disk' };
const SVG = 'http://www.w3.org/2000/svg';

function makeGraph() {
    const graph = document.createElementNS(SVG, 'svg');
    graph.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    graph.setAttribute('preserveAspectRatio', 'none');
    // The words beside it say the same.
    graph.setAttribute('aria-hidden', 'true');
    const area = document.createElementNS(SVG, 'polygon');
    graph.append(area);
    return { graph, area };
}

export class Gauges {
    #root;
    #poller;
    #usage = new Usage();
    #notice = new Notice();
    #generation = null;
    #gauges = {};

    /** `ask()` gives a promise of the sandbox's metrics; `signal` ends it all. */
    constructor(root, ask, signal) {
        this.#root = root;
        this.#poller = new Poller({
            ask,
            tell: (sample) => this.#show(sample),
            isSeen: () => !document.hidden,
            timers: { set: (act, ms) => setTimeout(act, ms), clear: (handle) => clearTimeout(handle) },
        });
        root.hidden = true;
        root.replaceChildren();
        for (const [name, label] of Object.entries(NAMES)) {
            const gauge = h('div', 'gauge');
            const words = h('dd', 'words');
            const picture = h('dd', 'picture');
            const { graph, area } = makeGraph();
            picture.append(graph);
            gauge.append(h('dt', '', label), words, picture);
            gauge.dataset.name = name;
            root.append(gauge);
            this.#gauges[name] = { gauge, words, area };
        }
        document.addEventListener('visibilitychange', () => this.#poller.look(), { signal });
        signal.addEventListener('abort', () => this.#poller.stop());
    }

    /** The conversation as it is now: one whose sandbox runs is looked at. */
    follow({ status, generation }) {
        if (generation !== this.#generation) {
            this.#usage = new Usage();
            this.#notice = new Notice();
        }
        this.#generation = generation;
        if (status === 'active') {
            this.#poller.start();
        } else {
            this.#poller.stop();
            this.#root.hidden = true;
        }
    }

    #show(sample) {
        const now = this.#usage.add(sample);
        for (const [name, { gauge, words, area }] of Object.entries(this.#gauges)) {
            const { text, share, tone } = now[name];
            gauge.className = `gauge ${tone}`;
            gauge.dataset.share = share === null ? '' : share.toFixed(3);
            if (words.textContent !== text) words.textContent = text;
            area.setAttribute('points', areaOf(this.#usage.shares(name), WIDTH, HEIGHT));
        }
        this.#root.classList.toggle('calm', !this.#notice.add(now));
        this.#root.hidden = false;
    }
}
