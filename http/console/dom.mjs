// Elements. Text becomes text nodes and nothing else.

export function h(tag, classes = '', text = '') {
    const element = document.createElement(tag);
    if (classes !== '') element.className = classes;
    if (text !== '') element.textContent = text;
    return element;
}

export function button(text, act, options = {}) {
    const element = h('button', '', text);
    element.type = 'button';
    element.addEventListener('click', act, options);
    return element;
}

/** The options of a select, of [value, text, isDisabled] each. */
export function options(all, chosen) {
    return all.map(([value, text, isDisabled = false]) => {
        const option = h('option', '', text);
        option.value = value;
        option.selected = value === chosen;
        option.disabled = isDisabled;
        return option;
    });
}
