/** Links to trajectories in the archive and to their steps. */

import { h } from "./dom.js";
import { link } from "./router.js";

const trajectoryAddress = (dataset, id, step) => link(["trajectories", dataset, id], { step });

export const trajectoryLink = (dataset, id) => h("a", { class: "mono", href: trajectoryAddress(dataset, id) }, id);

/** Returns a list of sources, `{trajectory_id, steps}` each; every trajectory and every step is a link. */
export function renderSourceLinks(dataset, sources) {
  return h(
    "ul",
    { class: "plain" },
    sources.map(({ trajectory_id: id, steps }) =>
      h("li", null, trajectoryLink(dataset, id), steps.length ? renderStepLinks(dataset, id, steps) : null),
    ),
  );
}

function renderStepLinks(dataset, id, steps) {
  const label = steps.length === 1 ? " step " : " steps ";
  const links = steps.map((step, i) => [
    i ? ", " : null,
    h("a", { href: trajectoryAddress(dataset, id, step), "aria-label": `step ${step} of ${id}` }, step),
  ]);
  return h("span", { class: "muted" }, label, links);
}
