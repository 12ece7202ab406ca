// Styles of the terminal's own script, which writes style elements and style attributes. The page's policy refuses both, as they
// could come from markup that someone injected, and allows what scripts alone can do: style sheets that are constructed, and
// the properties of an element's style. This turns the first into the second. Pure but for the document that it is given.

/**
 * From now on `document.createElement` gives elements that keep to the policy: of `style` a stand-in whose text is a constructed
 * style sheet, of `span` one whose style attribute is written as properties. Gives a function that ends it; what was made
 * stays as it is.
 */
export function keepStylesStrict(document, StyleSheet = globalThis.CSSStyleSheet) {
    const create = document.createElement.bind(document);
    const mine = (tag, ...rest) => {
        if (tag === 'style') return makeSheetElement(document, create, StyleSheet);
        const element = create(tag, ...rest);
        if (tag === 'span') element.setAttribute = setAttribute;
        return element;
    };
    document.createElement = mine;
    return () => {
        if (document.createElement === mine) delete document.createElement;
    };
}

function setAttribute(name, value) {
    if (name === 'style') this.style.cssText = value;
    else Object.getPrototypeOf(this).setAttribute.call(this, name, value);
}

// Stands where the style element would, and holds nothing.
function makeSheetElement(document, create, StyleSheet) {
    const sheet = new StyleSheet();
    let text = '';
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    const element = create('template');
    Object.defineProperty(element, 'textContent', {
        get: () => text,
        set(value) {
            text = String(value);
            sheet.replaceSync(text);
        },
    });
    const remove = element.remove;
    element.remove = () => {
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
        remove.call(element);
    };
    return element;
}
