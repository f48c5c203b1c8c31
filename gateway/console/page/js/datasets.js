/** The dataset that the reader uses: its pages, the choice of a dataset, and the last one. */

import { h } from "./dom.js";
import { listDatasets } from "./endpoints.js";
import { openRoute, replaceRoute, formatLink } from "./router.js";
import { renderEmptyState } from "./states.js";
import { renderTabs } from "./parts.js";
import { t } from "./texts.js";

const KEY = "hansei.dataset";

export const lastDataset = {
  get name() {
    return localStorage.getItem(KEY) ?? "";
  },
  set name(value) {
    localStorage.setItem(KEY, value);
  },
};

/** The tabs of a dataset. */
export function renderDatasetTabs(dataset, present) {
  const pages = [
    [t("common.bullets"), ["playbooks", dataset]],
    [t("common.history"), ["playbooks", dataset, "history"]],
    [t("common.review"), ["review", dataset]],
    [t("common.search"), ["search", dataset]],
    [t("common.learn"), ["learn", dataset]],
    [t("common.trajectories"), ["trajectories", dataset]],
    [t("common.evidence"), ["evidence", dataset]],
    [t("common.guards"), ["guards", dataset]],
  ];
  return renderTabs(
    t("datasets.pages_of", { dataset }),
    pages.map(([name, parts]) => [name, formatLink(parts)]),
    present,
  );
}

/** Redirects a page such as `#/search` to the dataset that was opened last, else to the first one. */
export function createChooser(page) {
  return async ({ signal }) => {
    const all = await listDatasets(signal);
    const names = all.map(({ name }) => name);
    const dataset = names.includes(lastDataset.name) ? lastDataset.name : names[0];
    if (dataset) return replaceRoute([page, dataset]);
    const learn = h(
      "a",
      { class: "button primary", href: formatLink(["learn", "default"]) },
      t("common.learn_from_a_first_trajectory"),
    );
    return renderEmptyState(t("common.no_playbook_yet"), t("common.learning_from_a_first_trajectory"), learn);
  };
}

/** Returns a choice of datasets, which opens the same page of another dataset. */
export function renderDatasetChoice(page, present, signal) {
  const choice = h(
    "select",
    { "aria-label": t("common.dataset"), onchange: () => openRoute([page, choice.value]) },
    h("option", { value: present }, present),
  );
  listDatasets(signal).then(
    (all) => {
      const names = [...new Set([present, ...all.map(({ name }) => name)])].sort();
      choice.replaceChildren(...names.map((name) => h("option", { value: name, selected: name === present }, name)));
    },
    () => {},
  );
  return choice;
}
