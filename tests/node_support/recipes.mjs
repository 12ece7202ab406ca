// The programs of docs/streaming.md, and of other pages.
import { readFileSync } from 'node:fs';

/** The text of the program whose first line is a comment that begins with `name`. Throws if there is none. */
export function recipe(name, page = 'streaming.md') {
    const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8');
    const blocks = [...text.matchAll(/^```(?:js|python)\n(?:\/\/|#) (\S+?):?(?: [^\n]*)?\n[^]*?^```$/gm)];
    const block = blocks.find(([, title]) => title === name);
    if (block === undefined) throw new Error(`docs/${page} has no ${name}`);
    return block[0].replace(/^```\w+\n/, '').replace(/```$/, '');
}
