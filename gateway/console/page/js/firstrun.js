/** What a new user sees: what hansei is, the recorded examples, and the ways to connect an agent. */

import { Refusal } from "./api.js";
import { fillElement, h } from "./dom.js";
import { parseTrajectories, readExamples, submitJob, watchJob } from "./endpoints.js";
import { formatCount } from "./format.js";
import { formatLink, openRoute } from "./router.js";
import { EXAMPLE_DATASET, renderSnippets } from "./snippets.js";
import { runChange } from "./states.js";
import { replaceDataset } from "./trajectories.js";
import { t } from "./texts.js";

/** Returns the page of a hansei without a dataset. */
export function renderFirstRun(signal) {
  const progress = h("p", { role: "status" });
  const load = h(
    "button",
    { type: "button", class: "primary", onclick: () => loadExamples(load, progress, signal) },
    t("firstrun.load_the_example_trajectories"),
  );
  return h(
    "div",
    { class: "narrow first-run" },
    h("p", { class: "lead" }, t("firstrun.hansei_reads_what_your_agents")),
    h("p", { class: "lead" }, t("firstrun.it_writes_the_lessons_into")),
    h("p", { class: "lead" }, t("firstrun.it_gives_agents_the_lessons")),
    h("h2", null, t("firstrun.see_it_with_recorded_trajectories")),
    h("p", { class: "muted" }, t("firstrun.twenty_short_tasks_of_a", { exampleDataset: EXAMPLE_DATASET })),
    h(
      "div",
      { class: "actions" },
      load,
      h(
        "a",
        { class: "button", href: formatLink(["learn", EXAMPLE_DATASET]) },
        t("firstrun.learn_from_your_own_trajectories"),
      ),
    ),
    progress,
    h("h2", null, t("common.connect_an_agent")),
    renderSnippets(EXAMPLE_DATASET, signal),
  );
}

/** Learns the recorded trajectories as a job, and opens the overview of their dataset when it has ended. */
async function loadExamples(button, progress, signal) {
  button.disabled = true;
  const job = await runChange(async () => {
    const file = await readExamples(signal);
    if (!file) throw new Refusal(t("firstrun.this_gateway_comes_without_examples"));
    const { trajectories } = await parseTrajectories({ dataset: EXAMPLE_DATASET }, file, signal);
    const { job: made } = await submitJob(
      EXAMPLE_DATASET,
      trajectories.map((found) => replaceDataset(found, EXAMPLE_DATASET)),
      signal,
    );
    const take = ({ job: { total, waiting } }) =>
      fillElement(
        progress,
        t("firstrun.learned_of_trajectories", { total: formatCount(total - waiting), total2: formatCount(total) }),
      );
    await watchJob(made.job_id, { signal, take });
    return made;
  });
  button.disabled = false;
  if (job && !signal.aborted) openRoute(["overview"], { dataset: EXAMPLE_DATASET, learned: "1" });
}
