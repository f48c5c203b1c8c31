/**
 * The texts of the page in the reader's language. Each language is one catalogue, `texts/<language>.js`, and the browser
 * loads the one that it prefers. All other modules get their texts from here.
 */

const LANGUAGES = ["en", "ja"];

/** The language of texts, numbers and dates: the first one of the browser that has a catalogue. */
export const LANGUAGE =
  navigator.languages.map((name) => name.slice(0, 2)).find((name) => LANGUAGES.includes(name)) ?? "en";

const { default: catalogue } = await import(`./texts/${LANGUAGE}.js`);

/** Returns the text of a key; `{name}` in it is replaced by the value of that name. */
export function t(key, values = {}) {
  const text = catalogue[key];
  if (text === undefined) throw new Error(`no text ${key} in the catalogue ${LANGUAGE}`);
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** Returns the reader's word for a name in code, such as the state `not serving`; an unknown name stays as it is. */
export const translateWord = (name) => catalogue[`word.${name.replaceAll(" ", "_")}`] ?? name;
