/** The steps of a plan as the boxes of its graph. */

import { h } from "./dom.js";
import { word } from "./format.js";
import { graph } from "./graph.js";
import { state } from "./parts.js";

/** The graph of a plan; `statusOf(step)` is a word, `chosen(step)` is called when a step is selected. */
export function drawPlanGraph(steps, statusOf, onChoose = () => {}) {
  return graph(steps, (step) => {
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
        h("span", { class: "muted" }, `${step.step_id} ${word(step.action, "ACTION_")}`),
        state(status),
      ),
      h("span", { class: "step-text" }, step.description),
    );
  });
}
