/** The stages of learning one trajectory; each is filled in when it ends. */

import { fillElement, h } from "./dom.js";
import { formatPlural, formatEnum } from "./format.js";
import { renderChip, renderDelta as deltaChip } from "./parts.js";
import { formatLink } from "./router.js";

const STAGES = [
  ["LEARN_STAGE_LOADED", "Read the playbook"],
  ["LEARN_STAGE_REFLECTED", "Reflect: find errors and their causes"],
  ["LEARN_STAGE_CURATED", "Curate: small edits of the playbook"],
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
    fillElement(item, h("h2", null, text), h("p", { class: "muted" }, message), this.describe(stage, response));
    const next = STAGES.findIndex(([name]) => name === stage) + 1;
    if (next < STAGES.length) this.markRunning(STAGES[next][0]);
  }

  skip(message) {
    const { item, text } = this.items.get("LEARN_STAGE_CURATED");
    item.className = "done";
    fillElement(item, h("h2", null, text), h("p", { class: "muted" }, message));
  }

  describe(stage, response) {
    if (stage === "LEARN_STAGE_REFLECTED") return renderReflection(response.reflection);
    if (stage === "LEARN_STAGE_CURATED") return renderCuration(this.dataset, response.curation);
    return null;
  }
}

function renderReflection({ insights, attribution, bullet_evaluations: evaluations, model }) {
  const blame = attribution
    ? h(
        "p",
        { class: "text" },
        `Went wrong at step ${attribution.step}${attribution.agent ? ` (${attribution.agent})` : ""}: ${attribution.reason}`,
      )
    : null;
  const cards = insights.map((content) =>
    h("article", { class: "card" }, h("p", { class: "text lead" }, content.key_insight), renderInsight(content)),
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
    h("p", { class: "muted" }, `Reflected by ${model || "rules"}.`),
  ];
}

function renderInsight(content) {
  const rows = [
    ["Error", content.error_identification],
    ["Why", content.root_cause_analysis],
    ["Correct approach", content.correct_approach],
  ].filter(([, text]) => text);
  return h(
    "details",
    null,
    h("summary", null, "Reasoning"),
    rows.map(([name, text]) => h("p", { class: "text" }, h("b", null, `${name}: `), text)),
  );
}

function renderCuration(dataset, { revision, operations, pending, conflicts, saved, error }) {
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
        `${formatPlural(pending.length, "change")} wait for review: `,
        h("a", { href: formatLink(["review", dataset]) }, "review"),
        ".",
      )
    : null;
  const lost = conflicts.length
    ? h("p", null, `${formatPlural(conflicts.length, "edit")} not applied because of newer changes.`)
    : null;
  const outcome = saved
    ? h(
        "p",
        { class: "muted" },
        "Held by ",
        h("a", { href: formatLink(["playbooks", dataset, "history"], { revision }) }, `revision ${revision}`),
        ".",
      )
    : h("p", { class: "bad" }, error);
  return [done, waiting, lost, outcome];
}
