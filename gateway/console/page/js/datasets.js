/** The dataset that the reader uses: its pages, the choice of a dataset, and the last one. */

import { h } from "./dom.js";
import { listDatasets } from "./endpoints.js";
import { openRoute, replaceRoute, formatLink } from "./router.js";
import { renderEmptyState } from "./states.js";
import { renderTabs } from "./parts.js";

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
  const pages = {
    Bullets: ["playbooks", dataset],
    History: ["playbooks", dataset, "history"],
    Review: ["review", dataset],
    Search: ["search", dataset],
    Learn: ["learn", dataset],
    Trajectories: ["trajectories", dataset],
    Evidence: ["evidence", dataset],
  };
  return renderTabs(
    `Pages of ${dataset}`,
    Object.entries(pages).map(([name, parts]) => [name, formatLink(parts)]),
    present,
  );
}

/** Redirects a page such as `#/search` to the dataset that was opened last, else to the first one. */
export function createChooser(page) {
  return async ({ signal }) => {
    const { datasets: all } = await listDatasets(signal);
    const names = all.map(({ name }) => name);
    const dataset = names.includes(lastDataset.name) ? lastDataset.name : names[0];
    if (dataset) return replaceRoute([page, dataset]);
    const learn = h(
      "a",
      { class: "button primary", href: formatLink(["learn", "default"]) },
      "Learn from a first trajectory",
    );
    return renderEmptyState("No playbook yet", "Learning from a first trajectory creates a playbook.", learn);
  };
}

/** Returns a choice of datasets, which opens the same page of another dataset. */
export function renderDatasetChoice(page, present, signal) {
  const choice = h(
    "select",
    { "aria-label": "Dataset", onchange: () => openRoute([page, choice.value]) },
    h("option", { value: present }, present),
  );
  listDatasets(signal).then(
    ({ datasets: all }) => {
      const names = [...new Set([present, ...all.map(({ name }) => name)])].sort();
      choice.replaceChildren(...names.map((name) => h("option", { value: name, selected: name === present }, name)));
    },
    () => {},
  );
  return choice;
}
