// Values of any type and size, as an agent writes them, as bounded words for people. Pure.

/** Characters of a value that is shown as a text. */
export const MAX_VALUE = 64 * 1024;
const MAX_WORD = 200;

export const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

/** A string as it is, nothing as '', any other value as JSON. */
export function asText(value) {
    if (typeof value === 'string') return value;
    if (value === undefined || value === null) return '';
    return cut(JSON.stringify(value, null, 2), MAX_VALUE);
}

/** Its first `limit` characters, and how many are missing. */
export function cut(text, limit) {
    return text.length <= limit ? text : `${text.slice(0, limit)}… (${text.length - limit} characters more)`;
}

/** A line of at most `limit` characters and a few. */
export function word(value, limit = MAX_WORD) {
    return cut(asText(value).replace(/\s+/g, ' ').trim(), limit);
}

/** `text` with a capital letter at its beginning and a full stop at its end. */
export function sentence(text) {
    return text === '' ? '' : `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]\s*$/.test(text) ? '' : '.'}`;
}

const numbers = new Intl.NumberFormat('en');

export function bytes(count) {
    if (typeof count !== 'number' || !Number.isFinite(count)) return 'some bytes';
    if (count < 1024) return `${numbers.format(count)} bytes`;
    const short = (number) => number.toFixed(1).replace(/\.0$/, '');
    return count < 1024 * 1024 ? `${short(count / 1024)} KB` : `${short(count / 1024 / 1024)} MB`;
}
