/**
 * Only this module creates elements. A child that is no element becomes a text node, so text from outside stays
 * text; links lead within the page only; handlers are functions, never text.
 */

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "indeterminate"]);

/** An HTML element: `h("p", {class: "muted"}, "text")`. */
export function h(tag, props, ...children) {
  return setUpElement(document.createElement(tag), props, children);
}

/** An SVG element. */
export function s(tag, props, ...children) {
  return setUpElement(document.createElementNS(SVG, tag), props, children);
}

/** Replaces the children of an element. */
export function fillElement(element, ...children) {
  element.replaceChildren(...collectNodes(children));
  return element;
}

/** Lets the browser save bytes as a file; the link leads to these bytes, and is never in the document. */
export function saveFile(blob, name) {
  const anchor = document.createElement("a");
  Object.assign(anchor, { href: URL.createObjectURL(blob), download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
}

function setUpElement(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) setProperty(element, name, value);
  element.append(...collectNodes(children));
  return element;
}

function setProperty(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) {
    if (typeof value !== "function") throw new TypeError(`${name} must be a function`);
    element.addEventListener(name.slice(2), value);
  } else if (name === "style") {
    for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
  } else if (PROPERTIES.has(name)) {
    element[name] = value;
  } else {
    if (name === "href" && !value.startsWith("#")) throw new TypeError("links lead within the page");
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function collectNodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}
