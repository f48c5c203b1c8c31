/** All playbooks. */

import { h } from "../dom.js";
import { listDatasets } from "../endpoints.js";
import { formatPlural } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderHead, renderTime } from "../parts.js";
import { openRoute, formatLink } from "../router.js";
import { renderEmptyState, loadPart } from "../states.js";
import { VirtualList } from "../virtual.js";
import { t } from "../texts.js";

export const formatTitle = () => t("common.playbooks");

export function openPage({ signal }) {
  const count = h("span");
  const body = h("div", { class: "split alone" });
  loadPart(
    body,
    signal,
    () => listDatasets(signal),
    (all) => {
      count.textContent = formatPlural(all.length, "dataset");
      return all.length ? renderList(all, signal) : renderEmpty();
    },
  );
  return [renderHead(t("common.playbooks"), count), body];
}

function renderEmpty() {
  const learn = h(
    "a",
    { class: "button primary", href: formatLink(["learn", "default"]) },
    t("common.learn_from_a_first_trajectory"),
  );
  return renderEmptyState(t("common.no_playbook_yet"), t("common.learning_from_a_first_trajectory"), learn);
}

function renderList(all, signal) {
  const list = new VirtualList({
    label: t("datasets.datasets"),
    row: renderRow,
    onOpen: ({ name }) => openRoute(["playbooks", name]),
  });
  list.show(all);
  bindKeys(
    [
      { keys: "j", what: t("datasets.next_dataset"), run: () => list.move(1) },
      { keys: "k", what: t("datasets.previous_dataset"), run: () => list.move(-1) },
      { keys: "Enter, o", what: t("common.open_it"), run: () => list.open() },
    ],
    signal,
  );
  return h("div", null, list.element);
}

const renderRow = ({ name, bullets, revision, updated_at: updated }) => [
  h("span", { class: "line strong" }, name),
  h("span", { class: "row-count" }, formatPlural(bullets, "bullet")),
  h("span", { class: "row-count wide-only" }, t("common.revision_2", { revision })),
  h("span", { class: "muted when" }, renderTime(updated)),
];
