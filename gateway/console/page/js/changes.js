/** Changes of bullets between two revisions: each bullet before and after. */

import { drawDiff } from "./diff.js";
import { h } from "./dom.js";
import { restoreBullet } from "./edits.js";
import { formatCount, formatEnum, formatPlural, readEnum } from "./format.js";
import { renderChip, renderState, renderVotes } from "./parts.js";
import { formatLink } from "./router.js";
import { t, translateWord } from "./texts.js";

const MOST = 200;

/** Returns cards for the changes; a button shows more of a long list. */
export function renderChanges(dataset, list) {
  if (!list.length) return h("p", { class: "muted" }, t("changes.no_bullet_differs"));
  const cards = h(
    "div",
    null,
    list.slice(0, MOST).map((entry) => renderChange(dataset, entry)),
  );
  return h(
    "div",
    null,
    h("p", { class: "muted" }, summarizeChanges(list)),
    cards,
    renderMoreButton(dataset, cards, list, MOST),
  );
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
    t("changes.show", { most: formatPlural(Math.min(MOST, list.length - from), "more change") }),
  );
  return button;
}

function summarizeChanges(list) {
  const kinds = Object.groupBy(list, classifyChange);
  return Object.entries(kinds)
    .map(([name, all]) => `${all.length} ${translateWord(name)}`)
    .join(", ");
}

function classifyChange({ before, after }) {
  if (!before) return "added";
  if (!after) return "removed";
  if (before.content !== after.content || before.section !== after.section) return "changed";
  if (!hasSameTarget(before, after)) return "guard changed";
  if (before.state !== after.state) return readEnum(after.state, "BULLET_STATE_");
  if (!hasSameVotes(before, after)) return "voted on";
  return isConfirmed(before, after) ? "confirmed" : "changed";
}

const KINDS = { added: "delta-add", removed: "delta-delete", changed: "delta-update", "guard changed": "delta-update" };

const hasSameVotes = (before, after) => before.helpful === after.helpful && before.harmful === after.harmful;
const isConfirmed = (before, after) => after.sources.length > before.sources.length;

function hasSameTarget({ target: before }, { target: after }) {
  const fields = ["expression", "mode", "pinned"];
  return before && after ? fields.every((field) => before[field] === after[field]) : !before === !after;
}

function renderChange(dataset, change) {
  const { before, after, bullet_id: id } = change;
  const name = classifyChange(change);
  const title = after
    ? h("a", { class: "mono", href: formatLink(["playbooks", dataset], { bullet: id }) }, id)
    : h("span", { class: "mono" }, id);
  return h(
    "article",
    { class: "card" },
    h(
      "div",
      { class: "card-head" },
      renderChip(translateWord(name), KINDS[name]),
      title,
      renderChip((after ?? before).section),
      renderVoteChange(before, after),
      after
        ? null
        : h(
            "button",
            { type: "button", class: "quiet end", onclick: () => restoreBullet(dataset, before, true) },
            t("common.add_again"),
          ),
    ),
    renderChangedText(before, after),
  );
}

function renderVoteChange(before, after) {
  if (!before || !after || hasSameVotes(before, after)) return null;
  return h("span", { class: "end" }, renderVotes(before), h("span", { class: "muted" }, " → "), renderVotes(after));
}

function renderChangedText(before, after) {
  if (!before || !after) return h("p", { class: `text ${after ? "" : "muted"}` }, (after ?? before).content);
  return [
    before.content === after.content ? h("p", { class: "text muted" }, after.content) : null,
    renderDifferences(before, after),
  ];
}

/** Returns what differs between two versions of a bullet, except their votes. */
export function renderDifferences(before, after) {
  return [
    before.content === after.content ? null : drawDiff(before.content, after.content),
    before.section === after.section
      ? null
      : h("p", null, t("common.section"), ": ", before.section, " → ", after.section),
    renderTargetChange(before, after),
    before.state === after.state ? null : h("p", null, t("bullet.now"), formatEnum(after.state, "BULLET_STATE_"), "."),
    isConfirmed(before, after)
      ? h("p", null, t("bullet.confirmed_by_another_trajectory_in", { length: formatCount(after.sources.length) }))
      : null,
  ];
}

/** Returns the guards before and after a change; nothing if they are the same. */
export function renderTargetChange(before, after) {
  if (hasSameTarget(before, after)) return null;
  return h("p", { class: "text" }, t("common.guard"), ": ", renderTarget(before), " → ", renderTarget(after));
}

function renderTarget({ target }) {
  if (!target?.expression) return h("span", { class: "muted" }, t("changes.no_guard"));
  return [
    renderState(readEnum(target.mode, "TARGET_MODE_")),
    target.pinned ? renderChip(t("guards.pinned")) : null,
    " ",
    h("code", { class: "mono" }, target.expression),
  ];
}
