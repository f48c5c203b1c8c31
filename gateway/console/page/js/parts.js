/** Small elements that several pages share. */

import { h } from "./dom.js";
import { formatAge, formatCount, formatTime, formatPercent, formatScore, formatEnum, readEnum } from "./format.js";
import { translateWord } from "./texts.js";
import { t } from "./texts.js";

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
  revoked: "bad",
  expired: "warn",
  done: "good",
  advise: "busy",
  ask: "warn",
  deny: "bad",
  refused: "bad",
};

/** A state as the reader's word, with its colour; `name` is the state in code. */
export const renderState = (name) =>
  h("span", { class: `chip state-${STATE_KINDS[name] ?? "none"}` }, translateWord(name));

export const renderChip = (text, kind = "") => (text ? h("span", { class: `chip ${kind}` }, text) : null);

export const renderDelta = (type) =>
  renderChip(formatEnum(type, "DELTA_TYPE_"), `delta-${readEnum(type, "DELTA_TYPE_")}`);

export const renderTime = (timestamp) =>
  timestamp ? h("time", { datetime: timestamp, title: formatTime(timestamp) }, formatAge(timestamp)) : null;

/** Helpful and harmful votes. */
export function renderVotes({ helpful, harmful }) {
  const up = h(
    "span",
    { class: Number(helpful) ? "good" : "muted", title: t("parts.helpful_votes") },
    `▲ ${formatCount(helpful)}`,
  );
  const down = h(
    "span",
    { class: Number(harmful) ? "bad" : "muted", title: t("parts.harmful_votes") },
    `▼ ${formatCount(harmful)}`,
  );
  return h(
    "span",
    { class: "votes", role: "img", "aria-label": t("parts.helpful_harmful", { helpful, harmful }) },
    up,
    down,
  );
}

/** A value from 0 to 1 as a bar, with the number beside it. */
export function renderBar(value, kind = "", text = formatScore(value)) {
  const width = `${Math.min(Math.max(Number(value ?? 0), 0), 1) * 100}%`;
  return h(
    "span",
    { class: `bar ${kind}` },
    h("span", { class: "bar-track" }, h("span", { class: "bar-fill", style: { width } })),
    h("span", { class: "bar-text" }, text),
  );
}

export const renderConfidence = (value) => renderBar(value, "confidence", formatPercent(value));

/** Names and values; pairs without a value are omitted. */
export function renderFacts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))),
  );
}

/** The head of a page: its name, an element beside it, and tabs. */
export function renderHead(title, aside, tabs) {
  return h(
    "header",
    { class: "head" },
    h("div", { class: "head-row" }, h("h1", null, title), h("div", { class: "head-aside" }, aside ?? null)),
    tabs ?? null,
  );
}

/** Links to the pages of one object; the current one is marked. */
export function renderTabs(label, entries, present) {
  const items = entries.map(([name, href]) => h("a", { href, "aria-current": name === present ? "page" : null }, name));
  // On a phone the current one may be beyond the edge.
  const current = items.find((item) => item.hasAttribute("aria-current"));
  requestAnimationFrame(() => current?.scrollIntoView({ block: "nearest", inline: "center" }));
  return h("nav", { class: "tabs", "aria-label": label }, items);
}

/** A key in a hint. */
export const renderKey = (name) => h("kbd", null, name);

let tabLists = 0;

/** The heading of a column; `number` aligns it with its numbers. */
export const renderHeader = (name, kind = "") => h("th", { scope: "col", class: kind }, name);

/** A table in a region that scrolls sideways; without headings it has only rows, which may be an element already. */
export function renderWideTable(label, headings, rows) {
  return h(
    "div",
    { class: "wide", role: "region", "aria-label": label, tabindex: "0" },
    h(
      "table",
      { class: "table" },
      headings.length ? h("thead", null, h("tr", null, headings)) : null,
      rows instanceof Node ? rows : h("tbody", null, rows),
    ),
  );
}

/** Tabs whose panels are in the page: `entries` are `[name, children]`; arrow keys move between them. */
export function renderTabList(label, entries) {
  const prefix = `tabs-${(tabLists += 1)}`;
  const panels = entries.map(([, children], i) =>
    h(
      "div",
      { id: `${prefix}-panel-${i}`, role: "tabpanel", "aria-labelledby": `${prefix}-${i}`, hidden: i > 0 },
      children,
    ),
  );
  const select = (index) => {
    for (const [i, tab] of tabs.entries()) {
      tab.setAttribute("aria-selected", String(i === index));
      tab.tabIndex = i === index ? 0 : -1;
      panels[i].hidden = i !== index;
    }
    tabs[index].focus();
  };
  const move = (event, index) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) select((index + by + tabs.length) % tabs.length);
  };
  const tabs = entries.map(([name], i) =>
    h(
      "button",
      {
        type: "button",
        id: `${prefix}-${i}`,
        role: "tab",
        "aria-controls": `${prefix}-panel-${i}`,
        "aria-selected": String(i === 0),
        tabindex: i === 0 ? "0" : "-1",
        onclick: () => select(i),
        onkeydown: (event) => move(event, i),
      },
      name,
    ),
  );
  return h("div", null, h("div", { class: "tab-list", role: "tablist", "aria-label": label }, tabs), panels);
}
