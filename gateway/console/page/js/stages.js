/** The stages of learning one trajectory; each is filled in when it ends. */

import { fillElement, h } from "./dom.js";
import { formatPlural, formatEnum } from "./format.js";
import { renderChip, renderDelta as deltaChip } from "./parts.js";
import { formatLink } from "./router.js";
import { renderSourceLinks } from "./steps.js";
import { t } from "./texts.js";

/** The name under which rules reflect. */
const OFFLINE = "offline";
const STAGES = [
  ["LEARN_STAGE_LOADED", t("stages.read_the_playbook")],
  ["LEARN_STAGE_REFLECTED", t("stages.reflect_find_errors_and_their")],
  ["LEARN_STAGE_CURATED", t("stages.curate_small_edits_of_the")],
];

/** The stages of one `Learn` call; each is filled in when it ends. */
export class Stages {
  constructor(dataset) {
    this.dataset = dataset;
    this.element = h("ol", { class: "stages narrow", "aria-live": "polite" });
    this.items = new Map(STAGES.map(([name, text]) => [name, { text, item: h("li", null, h("h2", null, text)) }]));
    for (const { item } of this.items.values()) this.element.append(item);
    this.markRunning(STAGES[0][0]);
  }

  markRunning(name) {
    this.items.get(name)?.item.classList.add("running");
  }

  addMessage({ stage, message, response }) {
    if (stage === "LEARN_STAGE_SKIPPED") return this.skip(message);
    const { item, text } = this.items.get(stage);
    item.className = "done";
    // The message of a curation counts proposed edits; what became of each is shown below.
    const counts = stage === "LEARN_STAGE_CURATED" ? null : h("p", { class: "muted" }, message);
    fillElement(item, h("h2", null, text), counts, this.describe(stage, response));
    const next = STAGES.findIndex(([name]) => name === stage) + 1;
    if (next < STAGES.length) this.markRunning(STAGES[next][0]);
  }

  skip(message) {
    const { item, text } = this.items.get("LEARN_STAGE_CURATED");
    item.className = "done";
    fillElement(item, h("h2", null, text), h("p", { class: "muted" }, message));
  }

  describe(stage, response) {
    if (stage === "LEARN_STAGE_REFLECTED") return renderReflection(this.dataset, response.reflection);
    if (stage === "LEARN_STAGE_CURATED") return renderCuration(this.dataset, response.curation);
    return null;
  }
}

/** Shows the result of the reflector: the blamed step, the insights and the votes. */
function renderReflection(
  dataset,
  { insights, attribution, bullet_evaluations: evaluations, model, trajectory_id: trajectory },
) {
  const isModel = model && model !== OFFLINE;
  const renderSource = (steps) =>
    trajectory && steps.length ? renderSourceLinks(dataset, [{ trajectory_id: trajectory, steps }]) : null;
  const blame = attribution
    ? [
        h(
          "p",
          { class: "text" },
          t("stages.went_wrong_at_step", {
            step: attribution.step,
            agent: attribution.agent ? ` (${attribution.agent})` : "",
            reason: attribution.reason,
          }),
        ),
        renderSource([attribution.step]),
      ]
    : null;
  const cards = insights.map((content) =>
    h(
      "article",
      { class: "card" },
      h("p", { class: "text lead" }, content.key_insight),
      renderInsight(content),
      renderSource(content.steps),
    ),
  );
  const tags = evaluations.map(({ bullet_id: id, tag, reason }) =>
    h(
      "li",
      { class: "text" },
      h("span", { class: "mono" }, id),
      " ",
      renderChip(formatEnum(tag, "VOTE_TAG_")),
      " ",
      reason,
    ),
  );
  return [
    blame,
    cards,
    tags.length ? h("ul", { class: "plain" }, tags) : null,
    h("p", { class: "muted" }, isModel ? t("stages.reflected_by", { model }) : t("stages.reflected_by_rules")),
  ];
}

function renderInsight(content) {
  const rows = [
    [t("stages.error"), content.error_identification],
    [t("common.why"), content.root_cause_analysis],
    [t("stages.correct_approach"), content.correct_approach],
  ].filter(([, text]) => text);
  return h(
    "details",
    null,
    h("summary", null, t("common.reasoning")),
    rows.map(([name, text]) => h("p", { class: "text" }, h("b", null, `${name}: `), text)),
  );
}

function renderCuration(dataset, { revision, operations, votes, pending, conflicts, saved, error }) {
  const done = operations.map(({ delta, applied, bullet_id: id, skipped_reason: why }) =>
    h(
      "article",
      { class: "card" },
      h(
        "div",
        { class: "card-head" },
        deltaChip(delta.type),
        id ? h("a", { class: "mono", href: formatLink(["playbooks", dataset], { bullet: id }) }, id) : null,
        applied ? null : h("span", { class: "muted" }, why),
      ),
      h("p", { class: "text" }, delta.content),
    ),
  );
  const waiting = pending.length
    ? h(
        "p",
        null,
        t("stages.wait_for_review", { length: formatPlural(pending.length, "change") }),
        h("a", { href: formatLink(["review", dataset]) }, t("stages.review")),
        ".",
      )
    : null;
  const lost = conflicts.length
    ? h("p", null, t("stages.not_applied_because_of_newer", { length: formatPlural(conflicts.length, "edit") }))
    : null;
  const fault = error ? h("p", { class: "bad text" }, error) : null;
  return [done, waiting, lost, fault, saved ? renderOutcome(dataset, revision, operations, votes) : null];
}

/** Says which revision has the lessons or the votes, or that nothing changed. */
function renderOutcome(dataset, revision, operations, votes) {
  const hasApplied = (outcomes) => outcomes.some(({ applied }) => applied);
  const isLearned = hasApplied(operations);
  if (!isLearned && !hasApplied(votes)) return h("p", { class: "muted" }, t("stages.no_lesson_was_added"));
  return h(
    "p",
    { class: "muted" },
    isLearned ? t("stages.held_by") : t("stages.no_lesson_was_added_votes"),
    h("a", { href: formatLink(["playbooks", dataset, "history"], { revision }) }, t("common.revision_2", { revision })),
    ".",
  );
}
