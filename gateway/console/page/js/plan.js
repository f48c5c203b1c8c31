/** The steps of a plan as the boxes of its graph. */

import { h } from "./dom.js";
import { formatEnum } from "./format.js";
import { drawGraph } from "./graph.js";
import { renderState } from "./parts.js";

/** The graph of a plan; `statusOf(step)` is a word, `chosen(step)` is called when a step is selected. */
export function drawPlanGraph(steps, statusOf, onChoose = () => {}) {
  return drawGraph(steps, (step) => {
    const status = statusOf(step);
    return h(
      "button",
      {
        type: "button",
        class: `step step-${status.replace(" ", "-")}`,
        "data-step": step.step_id,
        title: step.description,
        onclick: () => onChoose(step),
      },
      h(
        "span",
        { class: "step-head" },
        h("span", { class: "muted" }, `${step.step_id} ${formatEnum(step.action, "ACTION_")}`),
        renderState(status),
      ),
      h("span", { class: "step-text" }, step.description),
    );
  });
}
