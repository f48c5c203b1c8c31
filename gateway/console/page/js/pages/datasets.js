/** All playbooks. */

import { h } from "../dom.js";
import { listDatasets } from "../endpoints.js";
import { formatPlural } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderHead, renderTime } from "../parts.js";
import { openRoute, formatLink } from "../router.js";
import { renderEmptyState, loadPart } from "../states.js";
import { VirtualList } from "../virtual.js";

export const formatTitle = () => "Playbooks";

export function openPage({ signal }) {
  const count = h("span");
  const body = h("div", { class: "split alone" });
  loadPart(
    body,
    signal,
    () => listDatasets(signal),
    ({ datasets: all }) => {
      count.textContent = formatPlural(all.length, "dataset");
      return all.length ? renderList(all, signal) : renderEmpty();
    },
  );
  return [renderHead("Playbooks", count), body];
}

function renderEmpty() {
  const learn = h(
    "a",
    { class: "button primary", href: formatLink(["learn", "default"]) },
    "Learn from a first trajectory",
  );
  return renderEmptyState("No playbook yet", "Learning from a first trajectory creates a playbook.", learn);
}

function renderList(all, signal) {
  const list = new VirtualList({
    label: "Datasets",
    row: renderRow,
    onOpen: ({ name }) => openRoute(["playbooks", name]),
  });
  list.show(all);
  bindKeys(
    [
      { keys: "j", what: "next dataset", run: () => list.move(1) },
      { keys: "k", what: "previous dataset", run: () => list.move(-1) },
      { keys: "Enter, o", what: "open it", run: () => list.open() },
    ],
    signal,
  );
  return h("div", null, list.element);
}

const renderRow = ({ name, bullets, revision, updated_at: updated }) => [
  h("span", { class: "line strong" }, name),
  h("span", { class: "row-count" }, formatPlural(bullets, "bullet")),
  h("span", { class: "row-count wide-only" }, `revision ${revision}`),
  h("span", { class: "muted when" }, renderTime(updated)),
];
