// The agents that a new conversation may have. Pure.
import { harmless } from './ansi.mjs';
import { word } from './words.mjs';

const ADAPTERS = {
    'built-in': 'part of the server',
    lines: "a program that speaks the server's own protocol",
    acp: 'a coding agent, by the Agent Client Protocol',
    'stream-json': "a coding agent, by Claude Code's protocol",
};
const shown = (text) => harmless(word(text));

/** The description of an agent, for people. */
export function aboutAgent(agents, name) {
    const agent = agents.find((one) => one.name === name);
    return agent !== undefined && Object.hasOwn(ADAPTERS, agent.adapter) ? `${shown(name)}: ${ADAPTERS[agent.adapter]}.` : '';
}

/** [value, text, isDisabled] of each agent, for a select; those that are not installed come last. */
export function agentChoices(agents) {
    const choices = agents.map(({ name, installed }) => [name, installed ? shown(name) : `${shown(name)} – not installed`, !installed]);
    return [...choices.filter(([, , isDisabled]) => !isDisabled), ...choices.filter(([, , isDisabled]) => isDisabled)];
}

/** The agents that are not installed, as {name, why, command}: the command installs it; '': none is known. */
export function missingAgents(agents) {
    return agents
        .filter(({ installed }) => !installed)
        .map(({ name, reason = '', setup = '' }) => ({ name: shown(name), why: shown(reason), command: harmless(String(setup).slice(0, 500)) }));
}

/** The agent that is chosen at first: the one of before, the server's default, or any, if it is installed. */
export function firstAgent(agents, before, byDefault) {
    const isThere = (name) => agents.some((agent) => agent.name === name && agent.installed);
    return [before, byDefault].find(isThere) ?? agents.find(({ installed }) => installed)?.name ?? byDefault;
}
