/** What a new user sees: what hansei is, the recorded examples, and the ways to connect an agent. */

import { fillElement, h } from "./dom.js";
import { parseTrajectories, readExamples, submitJob, watchJob } from "./endpoints.js";
import { formatCount } from "./format.js";
import { formatLink, openRoute } from "./router.js";
import { EXAMPLE_DATASET, renderSnippets } from "./snippets.js";
import { runChange } from "./states.js";

/** Returns the page of a hansei without a dataset. */
export function renderFirstRun(signal) {
  const progress = h("p", { role: "status" });
  const load = h(
    "button",
    { type: "button", class: "primary", onclick: () => loadExamples(load, progress, signal) },
    "Load the example trajectories",
  );
  return h(
    "div",
    { class: "narrow first-run" },
    h("p", { class: "lead" }, "hansei reads what your agents did, and finds the errors and their causes."),
    h("p", { class: "lead" }, "It writes the lessons into a playbook that people can read, review and correct."),
    h("p", { class: "lead" }, "It gives agents the lessons that fit their task, and measures whether they help."),
    h("h2", null, "See it with recorded trajectories"),
    h(
      "p",
      { class: "muted" },
      `Twenty short tasks of a coding agent become a playbook, in the dataset ${EXAMPLE_DATASET}.`,
    ),
    h(
      "div",
      { class: "actions" },
      load,
      h("a", { class: "button", href: formatLink(["learn", EXAMPLE_DATASET]) }, "Learn from your own trajectories"),
    ),
    progress,
    h("h2", null, "Connect an agent"),
    renderSnippets(),
  );
}

/** Learns the recorded trajectories as a job, and opens the overview of their dataset when it has ended. */
async function loadExamples(button, progress, signal) {
  button.disabled = true;
  const job = await runChange(async () => {
    const file = await readExamples(signal);
    if (!file) throw new Error("This gateway comes without examples; use hansei learn examples/trajectories.");
    const { trajectories } = await parseTrajectories({ dataset: EXAMPLE_DATASET }, file, signal);
    const { job: made } = await submitJob(EXAMPLE_DATASET, trajectories, signal);
    const take = ({ job: { total, waiting } }) =>
      fillElement(progress, `Learned ${formatCount(total - waiting)} of ${formatCount(total)} trajectories.`);
    await watchJob(made.job_id, { signal, take });
    return made;
  });
  button.disabled = false;
  if (job && !signal.aborted) openRoute(["overview"], { dataset: EXAMPLE_DATASET, learned: "1" });
}
