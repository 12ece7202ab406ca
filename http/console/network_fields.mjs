// The fields of a form for the network of a sandbox: the mode, and with egress the operator's groups and a list of rules.
import { MODES, asksOf, headersOf, modeOf, readRules, rulesOf } from './network.mjs';
import { h, options } from './dom.mjs';

const HINT = 'Ports 80 and 443, unless a rule names one. *.example.org: all names below it. host:22/tcp: any bytes, not TLS alone.';

export class NetworkFields {
    #mode;
    #box;
    #groups = [];
    #rules = h('textarea');
    #ask = h('input');

    /** `mode`: a select. `box`: an element for the other fields. */
    constructor(mode, box) {
        this.#mode = mode;
        this.#box = box;
        this.#rules.rows = 4;
        Object.assign(this.#rules, { spellcheck: false, autocapitalize: 'off', placeholder: 'api.example.com\n*.example.org:443' });
        this.#ask.type = 'checkbox';
        mode.addEventListener('change', () => this.#fit());
    }

    /** For a new sandbox: the mode '' names no network, and the server gives what the agent needs. */
    showDefault(system) {
        this.show('none', system);
        this.#mode.prepend(...options([['', "the agent's default"]], ''));
        this.#mode.disabled = false;
    }

    /** `system`: the answer of /v1/system. Offers what it allows, and what the sandbox has already. */
    show(network, system) {
        const modes = Object.keys(MODES).filter((mode) => system.networks.includes(mode) || mode === modeOf(network));
        this.#mode.replaceChildren(...options(modes.map((mode) => [mode, MODES[mode]]), modeOf(network)));
        this.#mode.disabled = modes.length < 2;
        const names = (system.egress?.groups ?? []).map((name) => `@${name}`);
        const rules = rulesOf(network);
        this.#groups = names.map((name) => {
            const box = h('input');
            Object.assign(box, { type: 'checkbox', value: name, checked: rules.includes(name) });
            return box;
        });
        this.#rules.value = rules.filter((rule) => !names.includes(rule)).join('\n');
        this.#ask.checked = asksOf(network);
        const parts = [];
        if (names.length > 0) {
            const groups = h('fieldset');
            groups.append(h('legend', '', 'Groups of hosts'), ...this.#groups.map((box) => labelled(box, box.value, 'check')));
            parts.push(groups);
        }
        parts.push(labelled(this.#rules, 'Hosts, one a line'), h('p', 'hint', HINT));
        const headers = headersOf(network);
        if (headers.length > 0)
            parts.push(h('p', 'hint', `Requests to these get headers, as long as their lines stay: ${headers.join('; ')}`));
        this.#box.replaceChildren(...parts, labelled(this.#ask, 'Ask me about other hosts', 'check'));
        this.#fit();
    }

    get mode() {
        return this.#mode.value;
    }

    get rules() {
        return [...this.#groups.filter((box) => box.checked).map((box) => box.value), ...readRules(this.#rules.value)];
    }

    /** The members that `networkOf` keeps beside the mode and the rules. */
    get more() {
        return { mode: 'egress', ask: this.#ask.checked };
    }

    #fit() {
        this.#box.hidden = this.mode !== 'egress';
    }
}

function labelled(field, text, classes = '') {
    const label = h('label', classes);
    label.append(...(classes === 'check' ? [field, text] : [text, field]));
    return label;
}
