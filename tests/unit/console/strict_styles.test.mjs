import assert from 'node:assert/strict';
import { test } from 'node:test';

import { keepStylesStrict } from '../../../http/console/strict_styles.mjs';

class FakeElement {
    attributes = {};
    style = { cssText: '' };
    isThere = true;
    constructor(tag) {
        this.tag = tag;
    }
    setAttribute(name, value) {
        this.attributes[name] = value;
    }
    remove() {
        this.isThere = false;
    }
}
class FakeDocument {
    adoptedStyleSheets = ['of the page'];
    createElement(tag) {
        return new FakeElement(tag);
    }
}
class FakeSheet {
    replaceSync(text) {
        this.text = text;
    }
}

test('a style element becomes a style sheet that was constructed, and goes with it', () => {
    const document = new FakeDocument();
    keepStylesStrict(document, FakeSheet);
    const style = document.createElement('style');
    assert.notEqual(style.tag, 'style');
    style.textContent = '.a { color: red }';
    assert.equal(document.adoptedStyleSheets[1].text, '.a { color: red }');
    style.textContent = '';
    assert.equal(document.adoptedStyleSheets[1].text, '');
    style.remove();
    assert.deepEqual(document.adoptedStyleSheets, ['of the page']);
    assert.equal(style.isThere, false);
});

test('a style attribute becomes properties of the style, other attributes stay', () => {
    const document = new FakeDocument();
    keepStylesStrict(document, FakeSheet);
    const span = document.createElement('span');
    span.setAttribute('style', 'color:#123456;');
    span.setAttribute('dir', 'ltr');
    assert.equal(span.style.cssText, 'color:#123456;');
    assert.deepEqual(span.attributes, { dir: 'ltr' });
    const other = document.createElement('p');
    assert.equal(Object.hasOwn(other, 'setAttribute'), false);
});

test('it ends, and a document is then as it was', () => {
    const document = new FakeDocument();
    const end = keepStylesStrict(document, FakeSheet);
    end();
    assert.equal(Object.hasOwn(document, 'createElement'), false);
    assert.equal(document.createElement('style').tag, 'style');
    end();
});
