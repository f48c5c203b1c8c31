/** Small elements that several pages share. */

import { h } from "./dom.js";
import { formatAge, count, exact, percent, score, word } from "./format.js";

const STATE_KINDS = {
  success: "good",
  approved: "good",
  serving: "good",
  active: "good",
  live: "good",
  completed: "good",
  proven: "good",
  harmful: "bad",
  trial: "busy",
  failed: "bad",
  failure: "bad",
  error: "bad",
  rejected: "bad",
  "not serving": "bad",
  unreachable: "bad",
  partial: "warn",
  paused: "warn",
  waiting: "warn",
  stale: "warn",
  behind: "warn",
  reconnecting: "warn",
  "in doubt": "warn",
  incomplete: "warn",
  running: "busy",
};

/** A state as a word, with its colour. */
export const state = (name) => h("span", { class: `chip state-${STATE_KINDS[name] ?? "none"}` }, name);

export const chip = (text, kind = "") => (text ? h("span", { class: `chip ${kind}` }, text) : null);

export const delta = (type) => chip(word(type, "DELTA_TYPE_"), `delta-${word(type, "DELTA_TYPE_")}`);

export const when = (timestamp) =>
  timestamp ? h("time", { datetime: timestamp, title: exact(timestamp) }, formatAge(timestamp)) : null;

/** Helpful and harmful votes. */
export function votes({ helpful, harmful }) {
  const up = h("span", { class: Number(helpful) ? "good" : "muted", title: "helpful votes" }, `▲ ${count(helpful)}`);
  const down = h("span", { class: Number(harmful) ? "bad" : "muted", title: "harmful votes" }, `▼ ${count(harmful)}`);
  return h("span", { class: "votes", role: "img", "aria-label": `${helpful} helpful, ${harmful} harmful` }, up, down);
}

/** A value from 0 to 1 as a bar, with the number beside it. */
export function bar(value, kind = "", text = score(value)) {
  const width = `${Math.min(Math.max(Number(value ?? 0), 0), 1) * 100}%`;
  return h(
    "span",
    { class: `bar ${kind}` },
    h("span", { class: "bar-track" }, h("span", { class: "bar-fill", style: { width } })),
    h("span", { class: "bar-text" }, text),
  );
}

export const confidence = (value) => bar(value, "confidence", percent(value));

/** Names and values; pairs without a value are omitted. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

/** The head of a page: its name, an element beside it, and tabs. */
export function head(title, aside, tabs) {
  return h(
    "header",
    { class: "head" },
    h("div", { class: "head-row" }, h("h1", null, title), h("div", { class: "head-aside" }, aside ?? null)),
    tabs ?? null,
  );
}

/** Links to the pages of one object; the current one is marked. */
export function tabs(label, entries, present) {
  const items = entries.map(([name, href]) => h("a", { href, "aria-current": name === present ? "page" : null }, name));
  // On a phone the current one may be beyond the edge.
  const current = items.find((item) => item.hasAttribute("aria-current"));
  requestAnimationFrame(() => current?.scrollIntoView({ block: "nearest", inline: "center" }));
  return h("nav", { class: "tabs", "aria-label": label }, items);
}

/** A key in a hint. */
export const key = (name) => h("kbd", null, name);
