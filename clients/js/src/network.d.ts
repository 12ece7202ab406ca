// The network of conversations and sandboxes.
/** The network of a sandbox, set as a whole. Answers have the words `none` and `host`, or an EgressNetwork. */
export type Network = 'none' | 'host' | { mode: 'none' | 'host' } | EgressNetwork;
/** A proxy of the server's is the one way out (docs/egress.md). */
export interface EgressNetwork {
    mode: 'egress';
    /** HOST, HOST:PORT, HOST:PORT/tcp, `*.HOST` or `@GROUP`: what programs inside reach. */
    allow?: string[];
    /** Served inside as plain HTTP at 127.0.0.1:3129/NAME/… */
    routes?: NetworkRoute[];
    /** A host that is not listed waits for a person: the event `egress_request`, `conversation.decideEgress()`. Not in a sandbox without a conversation. */
    ask?: boolean;
}
export interface NetworkRoute {
    name: string;
    /** `https://api.example.com`, perhaps with a port and a path. */
    upstream: string;
    /** The server sets them: a text, or a secret that programs inside never see. */
    headers?: Record<string, string | { secret: string; prefix?: string }>;
    methods?: string[];
    /** Exact, or ending in `*`. */
    paths?: string[];
    /** Lets git inside take this way to the upstream. */
    git?: boolean;
}
