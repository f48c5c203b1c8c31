/** All executions, and the start of a new one: a query, then its plan, then the execution. */

import { fetchAll } from "../api.js";
import { fillElement, h } from "../dom.js";
import { createPlan, listExecutions, startExecution, readThresholds } from "../endpoints.js";
import { formatPlural, formatEnum } from "../format.js";
import { drawPlanGraph } from "../plan.js";
import { bindKeys } from "../keys.js";
import { renderHead, renderKey, renderState, renderTime } from "../parts.js";
import { openRoute, noteQuery } from "../router.js";
import { runChange, renderEmptyState, loadPart } from "../states.js";
import { VirtualList } from "../virtual.js";

const PAGE = 200;
const MOST = 1000;
const STATUSES = ["RUNNING", "PAUSED", "SUCCESS", "PARTIAL", "FAILED", "CANCELLED"];

export const formatTitle = () => "Executions";

export function openPage({ query, signal }) {
  const view = new Executions(query, signal);
  view.load();
  return [renderHead("Executions", view.aside), view.renderForm(), view.labels, view.renderFilters(), view.body];
}

class Executions {
  constructor(query, signal) {
    Object.assign(this, { query, signal, all: [] });
    this.aside = h("span", { role: "status" });
    this.body = h("div", { class: "split alone" });
    this.draft = h("div", null);
    this.labels = h("div", { class: "muted", role: "note" });
    bindKeys(
      [
        { keys: "j", what: "next execution", run: () => this.list?.move(1) },
        { keys: "k", what: "previous execution", run: () => this.list?.move(-1) },
        { keys: "Enter, o", what: "open it", run: () => this.list?.open() },
        { keys: "/", what: "find executions", run: () => this.text.focus() },
        { keys: "n", what: "plan something new", run: () => this.question.focus() },
      ],
      signal,
    );
  }

  renderForm() {
    this.question = h("input", {
      class: "grow",
      required: true,
      placeholder: "Task",
      "aria-label": "Question",
      autocomplete: "off",
    });
    const form = h(
      "form",
      { class: "toolbar" },
      this.question,
      h("button", { class: "primary" }, "Plan ", renderKey("↵")),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const made = await runChange(() => createPlan(this.question.value));
      if (made) fillElement(this.draft, this.renderDraft(made));
    });
    return h("div", { class: "asking" }, form, this.draft);
  }

  renderDraft({ plan, from_template: template, template_reason: reason }) {
    const origin = template ? `A template plan${reason ? `: ${reason}` : "."}` : "A plan by the model.";
    const run = h("button", { type: "button", class: "primary", onclick: () => this.run(plan) }, "Run it");
    const drop = h("button", { type: "button", onclick: () => fillElement(this.draft) }, "Drop it");
    return h(
      "div",
      { class: "draft" },
      h("p", { class: "muted" }, origin),
      drawPlanGraph(plan.steps, () => "pending"),
      h("div", { class: "actions" }, run, drop),
    );
  }

  run(plan) {
    // The execution continues without a reader of its events, so the first event is enough to open its page.
    return runChange(async () => {
      for await (const { data } of startExecution(plan, this.signal))
        return openRoute(["executions", data.event.execution_id]);
    });
  }

  renderFilters() {
    const options = STATUSES.map((name) =>
      h("option", { value: name, selected: this.query.status === name }, formatEnum(name, "")),
    );
    this.status = h(
      "select",
      { "aria-label": "State", onchange: () => this.load() },
      h("option", { value: "" }, "All states"),
      options,
    );
    this.text = h("input", {
      type: "search",
      class: "grow",
      placeholder: "Find executions",
      "aria-label": "Find executions",
      value: this.query.q ?? "",
      onchange: () => this.load(),
    });
    return h("div", { class: "toolbar" }, this.text, this.status);
  }

  load() {
    return loadPart(
      this.body,
      this.signal,
      () => this.read(),
      () => this.draw(),
    );
  }

  async read() {
    fillElement(this.labels, (await readThresholds(this.signal)).tools.map(renderThreshold));
    const status = this.status?.value ? `EXECUTION_STATUS_${this.status.value}` : "";
    const q = this.text?.value ?? this.query.q ?? "";
    noteQuery({ status: this.status?.value ?? "", q });
    const ask = (token) =>
      listExecutions({ status, query_contains: q, page_size: PAGE, page_token: token }, this.signal);
    this.all = await fetchAll(ask, "executions", MOST);
  }

  draw() {
    this.aside.textContent = formatPlural(this.all.length, "execution");
    if (!this.all.length)
      return renderEmptyState("No executions", "Enter a task above to create a plan. The plan starts when you run it.");
    this.list = new VirtualList({
      label: "Executions",
      row: renderRow,
      onOpen: ({ execution_id: id }) => openRoute(["executions", id]),
    });
    this.list.show(this.all, ({ execution_id: id }) => id);
    return h("div", null, this.list.element);
  }
}

/** What labels show about the results of one tool. */
const renderThreshold = ({ tool, proven_threshold: proven, selected, labelled, waiting, missing, revocations }) =>
  h(
    "p",
    null,
    `${tool}: ${proven == null ? "no threshold proven" : `proven above ${proven.toFixed(2)}`}; `,
    `${labelled} of ${selected} selected steps labelled, ${waiting} waiting, ${missing} missing; `,
    formatPlural(Number(revocations), "revocation"),
  );

const renderRow = ({ execution_id: id, original_query: query, status, start_time: start }) => [
  h("span", { class: "row-state" }, renderState(formatEnum(status, "EXECUTION_STATUS_"))),
  h("span", { class: "line" }, query),
  h("span", { class: "mono muted wide-only" }, id),
  h("span", { class: "muted when" }, renderTime(start)),
];
