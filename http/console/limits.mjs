// Limits and times as people type them, for requests. Pure.

/** The fields of the form: [name of the limit, label]. */
export const LIMITS = [
    ['memoryMb', 'Memory, MB'],
    ['cpuPercent', 'CPU, % of one'],
    ['diskMb', 'Disk, MB'],
    ['tmpMb', '/tmp, MB'],
    ['maxProcesses', 'Processes'],
    ['maxSockets', 'Sockets'],
    ['maxOpenFiles', 'Open files of each'],
];

/** A whole number above 0, null for nothing; throws an error that names what is meant. */
export function readNumber(text, label) {
    const typed = String(text).trim();
    if (typed === '') return null;
    if (!/^\d{1,9}$/.test(typed) || Number(typed) === 0) throw new Error(`${label}: a whole number above 0, or nothing for the server's default.`);
    return Number(typed);
}

/** Members of a request, of what was typed: `values` by the name of the limit, `idleMinutes`. Only what was typed is named. */
export function readForm(values, idleMinutes) {
    const form = {};
    for (const [name, label] of LIMITS) {
        const number = readNumber(values[name] ?? '', label);
        if (number !== null) (form.limits ??= {})[name] = number;
    }
    const minutes = readNumber(idleMinutes, 'Pause after');
    if (minutes !== null) form.idleSeconds = 60 * minutes;
    return form;
}

const WHAT = { memoryMb: 'memory', diskMb: 'disk' };

/** The question that raises a limit which a sandbox met: twice of it is offered. */
export function raiseQuestion(limit, now) {
    return {
        title: `Raise the limit of ${WHAT[limit]}`,
        text: `It is ${now} MB now. A new one counts from the next start of the sandbox, which the next message brings.`,
        label: 'MB',
        name: String(2 * now),
        action: 'Raise',
        check: (text) => (/^\d{1,9}$/.test(text.trim()) && Number(text) > now ? null : `A whole number above ${now}.`),
    };
}
