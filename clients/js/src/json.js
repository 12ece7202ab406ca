// JSON whose integers keep their digits: those that a number cannot hold exactly are BigInts.
import { uniqueId } from './bytes.js';

const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const INTEGER = /^-?\d+$/;
// 2^53 has 16 digits.
const LONG = /\d{16}/;

const isExact = (number) => !INTEGER.test(number) || Number.isSafeInteger(Number(number));

/** The index behind the string that begins at `start`. */
function endOfString(text, start) {
    for (let at = start + 1; ; ++at) {
        at = text.indexOf('"', at);
        if (at < 0) return text.length;
        let first = at;
        while (text[first - 1] === '\\') --first;
        if ((at - first) % 2 === 0) return at + 1;
    }
}

/** `text` with `replace(number)` in place of each number outside its strings. */
function withNumbers(text, replace) {
    const parts = [];
    for (let at = 0; at < text.length; ) {
        const quote = text.indexOf('"', at);
        const end = quote < 0 ? text.length : quote;
        parts.push(text.slice(at, end).replace(NUMBER, replace));
        at = quote < 0 ? end : endOfString(text, quote);
        parts.push(text.slice(end, at));
    }
    return parts.join('');
}

/** The value of JSON text; its integers beyond 2^53 - 1 are BigInts. Throws SyntaxError. */
export function parseJson(text) {
    const value = JSON.parse(text);
    if (!LONG.test(text)) return value;
    // No string of the text begins with it.
    const mark = uniqueId();
    let isMarked = false;
    const marked = withNumbers(text, (number) => {
        if (isExact(number)) return number;
        isMarked = true;
        return `"${mark}${number}"`;
    });
    if (!isMarked) return value;
    return JSON.parse(marked, (_, each) => (typeof each === 'string' && each.startsWith(mark) ? BigInt(each.slice(mark.length)) : each));
}

/** JSON text in which a BigInt is an integer with all its digits. Throws what JSON.stringify does. */
export function toJson(value) {
    const mark = uniqueId();
    let isMarked = false;
    const text = JSON.stringify(value, (_, each) => {
        if (typeof each !== 'bigint') return each;
        isMarked = true;
        return mark + each;
    });
    return isMarked ? text.replace(new RegExp(`"${mark}(-?\\d+)"`, 'g'), '$1') : text;
}
