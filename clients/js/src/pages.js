// Lists of the API, page after page.
import { Iteration } from './waiting.js';

/** An async iterator over `make(item)` of all items; `items` is their name in a page. Pages are fetched as they are needed. */
export function pages(transport, path, { query = {}, items, make = (item) => item, about, signal, timeoutMs }) {
    async function* generate(inner) {
        let cursor;
        do {
            const page = await transport.json('GET', path, { query: { ...query, cursor }, about, signal: inner, timeoutMs });
            for (const item of page[items]) yield make(item);
            cursor = page.next ?? undefined;
        } while (cursor !== undefined);
    }
    return new Iteration(generate, signal);
}
