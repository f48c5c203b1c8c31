/** The dataset that the reader uses: its pages, the choice of a dataset, and the last one. */

import { h } from "./dom.js";
import { datasets } from "./endpoints.js";
import { go, replaceRoute, link } from "./router.js";
import { showEmpty } from "./states.js";
import { tabs } from "./parts.js";

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
  return tabs(
    `Pages of ${dataset}`,
    Object.entries(pages).map(([name, parts]) => [name, link(parts)]),
    present,
  );
}

/** Redirects a page such as `#/search` to the dataset that was opened last, else to the first one. */
export function chooser(page) {
  return async ({ signal }) => {
    const { datasets: all } = await datasets(signal);
    const names = all.map(({ name }) => name);
    const dataset = names.includes(lastDataset.name) ? lastDataset.name : names[0];
    if (dataset) return replaceRoute([page, dataset]);
    const learn = h("a", { class: "button primary", href: link(["learn", "default"]) }, "Learn from a first trajectory");
    return showEmpty("No playbook yet", "Learning from a first trajectory creates a playbook.", learn);
  };
}

/** Returns a choice of datasets, which opens the same page of another dataset. */
export function renderDatasetChoice(page, present, signal) {
  const choice = h(
    "select",
    { "aria-label": "Dataset", onchange: () => go([page, choice.value]) },
    h("option", { value: present }, present),
  );
  datasets(signal).then(
    ({ datasets: all }) => {
      const names = [...new Set([present, ...all.map(({ name }) => name)])].sort();
      choice.replaceChildren(...names.map((name) => h("option", { value: name, selected: name === present }, name)));
    },
    () => {},
  );
  return choice;
}
