// Which ports are listened on in the sandbox, from the events of the log. Pure.

/** The address of a preview, or null for anything that is not one. */
export function previewUrl(text) {
    if (typeof text !== 'string' || !URL.canParse(text)) return null;
    const { protocol, username, password } = new URL(text);
    return ['http:', 'https:'].includes(protocol) && username === '' && password === '' ? text : null;
}

function isPort(port) {
    return Number.isInteger(port) && port > 0 && port < 65536;
}

export class Ports {
    #open = new Map();
    #halt = null; // why no port answers: 'frozen', which keeps them, or 'paused' or 'ended'

    /** True if the event changed something. */
    apply({ type, data }) {
        if (type === 'port_opened' && isPort(data?.port)) {
            this.#open.set(data.port, previewUrl(data.url));
            return true;
        }
        if (type === 'port_closed') return this.#open.delete(data?.port);
        const halt = this.#halt;
        if (type === 'sandbox_ready' || type === 'sandbox_resumed') this.#halt = null;
        else if (type === 'sandbox_paused') this.#halt = data?.mode === 'warm' ? 'frozen' : 'paused';
        else if (type === 'sandbox_terminated') this.#halt = 'ended';
        const hadOpen = this.#halt !== null && this.#halt !== 'frozen' && this.#open.size > 0;
        if (hadOpen) this.#open.clear();
        return hadOpen || halt !== this.#halt;
    }

    /** Why nothing is shown of a port, and whether Resume helps: {text, canResume}; null for one that is open and answers. */
    closedBy(port) {
        if (this.#halt === 'frozen') return { text: `Port ${port} does not answer: the conversation is frozen.`, canResume: true };
        if (this.#open.has(port)) return null;
        if (this.#halt === 'paused') return { text: `Port ${port} is closed: the conversation is paused.`, canResume: true };
        if (this.#halt === 'ended') return { text: `Port ${port} is closed: the sandbox ended.`, canResume: false };
        return { text: `Port ${port} is closed: nothing listens there. It is shown again as soon as something does.`, canResume: false };
    }

    /** The open ports with an address, as [port, address], the smallest first. */
    get shown() {
        return [...this.#open].filter(([, url]) => url !== null).sort(([a], [b]) => a - b);
    }

    /** The open ports without an address. */
    get hidden() {
        return [...this.#open].filter(([, url]) => url === null).map(([port]) => port).sort((a, b) => a - b);
    }
}

/**
 * The list of ports that shows `port`, too. Where previews are ports of this machine, only the first one has an address.
 * Null where the sandbox has no preview at all.
 */
export function portsWith(conversation, port) {
    const url = previewUrl(conversation.sandboxPublicUrl);
    if (url === null) return null;
    const others = (conversation.preview?.ports ?? []).filter((one) => one !== port);
    return new URL(url).hostname === 'localhost' ? [port, ...others] : [...others, port];
}
