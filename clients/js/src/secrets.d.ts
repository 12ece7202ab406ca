// Types of secrets (docs/egress.md).
import type { Cancellable } from './index.js';

export interface SecretInfo {
    name: string;
    hosts: string[];
    /** Null: the operator's. */
    userId: string | null;
    updatedAt: string;
    /** False: it was sealed with another key of the server and must be put again. */
    usable: boolean;
}
/** `userId` names the user whose secrets are meant; without it they are the operator's, or those of the key's user. */
export interface SecretOwner {
    userId?: string | undefined;
}
export interface Secrets {
    /** Stores a value for requests to these hosts, in the place of one of the same name and owner. */
    put(name: string, secret: { value: string; hosts: string[] } & SecretOwner, options?: Cancellable): Promise<SecretInfo>;
    /** All but the value, which nobody gets. */
    get(name: string, options?: SecretOwner & Cancellable): Promise<SecretInfo>;
    list(options?: SecretOwner & Cancellable): Promise<SecretInfo[]>;
    delete(name: string, options?: SecretOwner & Cancellable): Promise<void>;
}
