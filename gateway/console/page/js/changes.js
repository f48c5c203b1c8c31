/** Changes of bullets between two revisions: each bullet before and after. */

import { drawDiff } from "./diff.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { chip, votes } from "./parts.js";
import { link } from "./router.js";

const MOST = 200;

/** Returns cards for the changes; a button shows more of a long list. */
export function changes(dataset, list) {
  if (!list.length) return h("p", { class: "muted" }, "No bullet differs.");
  const cards = h(
    "div",
    null,
    list.slice(0, MOST).map((entry) => renderChange(dataset, entry)),
  );
  return h("div", null, h("p", { class: "muted" }, summary(list)), cards, renderMoreButton(dataset, cards, list, MOST));
}

function renderMoreButton(dataset, cards, list, from) {
  if (from >= list.length) return null;
  const next = () => {
    cards.append(...list.slice(from, from + MOST).map((entry) => renderChange(dataset, entry)));
    button.replaceWith(renderMoreButton(dataset, cards, list, from + MOST) ?? "");
  };
  const button = h(
    "button",
    { type: "button", onclick: next },
    `Show ${plural(Math.min(MOST, list.length - from), "more change")}`,
  );
  return button;
}

function summary(list) {
  const kinds = Object.groupBy(list, kind);
  return Object.entries(kinds)
    .map(([name, all]) => `${all.length} ${name}`)
    .join(", ");
}

function kind({ before, after }) {
  if (!before) return "added";
  if (!after) return "removed";
  return before.content === after.content && before.section === after.section ? "voted on" : "changed";
}

const KINDS = { added: "delta-add", removed: "delta-delete", changed: "delta-update", "voted on": "" };

function renderChange(dataset, change) {
  const { before, after, bullet_id: id } = change;
  const name = kind(change);
  const title = after
    ? h("a", { class: "mono", href: link(["playbooks", dataset], { bullet: id }) }, id)
    : h("span", { class: "mono" }, id);
  return h(
    "article",
    { class: "card" },
    h(
      "div",
      { class: "card-head" },
      chip(name, KINDS[name]),
      title,
      chip((after ?? before).section),
      renderVotes(before, after),
    ),
    text(before, after),
  );
}

function renderVotes(before, after) {
  if (!before || !after || (before.helpful === after.helpful && before.harmful === after.harmful)) return null;
  return h("span", { class: "end" }, votes(before), h("span", { class: "muted" }, " → "), votes(after));
}

function text(before, after) {
  if (before && after)
    return before.content === after.content
      ? h("p", { class: "text muted" }, after.content)
      : drawDiff(before.content, after.content);
  return h("p", { class: `text ${after ? "" : "muted"}` }, (after ?? before).content);
}
