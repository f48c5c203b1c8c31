/** Links to trajectories in the archive and to their steps. */

import { h } from "./dom.js";
import { formatLink } from "./router.js";
import { t } from "./texts.js";

const formatTrajectoryLink = (dataset, id, step) => formatLink(["trajectories", dataset, id], { step });

export const renderTrajectoryLink = (dataset, id) =>
  h("a", { class: "mono", href: formatTrajectoryLink(dataset, id) }, id);

/** Returns a list of sources, `{trajectory_id, steps}` each; every trajectory and every step is a link. */
export function renderSourceLinks(dataset, sources) {
  return h(
    "ul",
    { class: "plain" },
    sources.map(({ trajectory_id: id, steps }) =>
      h("li", null, renderTrajectoryLink(dataset, id), steps.length ? renderStepLinks(dataset, id, steps) : null),
    ),
  );
}

function renderStepLinks(dataset, id, steps) {
  const label = ` ${steps.length === 1 ? t("steps.step") : t("steps.steps")} `;
  const links = steps.map((step, i) => [
    i ? ", " : null,
    h("a", { href: formatTrajectoryLink(dataset, id, step), "aria-label": t("steps.step_of", { step, id }) }, step),
  ]);
  return h("span", { class: "muted" }, label, links);
}
