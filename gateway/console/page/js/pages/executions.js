/** All executions, and the start of a new one: a query, then its plan, then the execution. */

import { fetchAll } from "../api.js";
import { fillElement, h } from "../dom.js";
import { createPlan, listExecutions, startExecution, readThresholds } from "../endpoints.js";
import { formatPlural, formatEnum, readEnum } from "../format.js";
import { drawPlanGraph } from "../plan.js";
import { bindKeys } from "../keys.js";
import { renderHead, renderKey, renderState, renderTime } from "../parts.js";
import { openRoute, noteQuery } from "../router.js";
import { runChange, renderEmptyState, loadPart } from "../states.js";
import { VirtualList } from "../virtual.js";
import { t, translateWord } from "../texts.js";

const PAGE = 200;
const MOST = 1000;
const STATUSES = ["RUNNING", "PAUSED", "SUCCESS", "PARTIAL", "FAILED", "CANCELLED"];

export const formatTitle = () => t("common.executions");

export function openPage({ query, signal }) {
  const view = new Executions(query, signal);
  view.load();
  return [
    renderHead(t("common.executions"), view.aside),
    view.renderForm(),
    view.labels,
    view.renderFilters(),
    view.body,
  ];
}

class Executions {
  constructor(query, signal) {
    Object.assign(this, { query, signal, all: [] });
    this.aside = h("span", { role: "status" });
    this.body = h("div", { class: "split alone" });
    this.draft = h("div", null);
    this.labels = h("div", { class: "labels muted" });
    bindKeys(
      [
        { keys: "j", what: t("executions.next_execution"), run: () => this.list?.move(1) },
        { keys: "k", what: t("executions.previous_execution"), run: () => this.list?.move(-1) },
        { keys: "Enter, o", what: t("common.open_it"), run: () => this.list?.open() },
        { keys: "/", what: t("executions.find_executions_2"), run: () => this.text.focus() },
        { keys: "n", what: t("executions.plan_something_new"), run: () => this.question.focus() },
      ],
      signal,
    );
  }

  renderForm() {
    this.question = h("input", {
      class: "grow",
      required: true,
      placeholder: t("common.task"),
      "aria-label": t("common.task"),
      autocomplete: "off",
    });
    const plan = h("button", { class: "primary" }, t("executions.plan"), renderKey("↵"));
    const form = h("form", { class: "toolbar" }, this.question, plan);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      plan.disabled = true;
      const made = await runChange(() => createPlan(this.question.value));
      plan.disabled = false;
      if (made) fillElement(this.draft, this.renderDraft(made));
    });
    return h("div", { class: "asking" }, form, this.draft);
  }

  renderDraft({ plan, from_template: template, template_reason: reason }) {
    const origin = template
      ? t("executions.a_template_plan", { reason: reason ? `: ${reason}` : "." })
      : t("executions.a_plan_by_the_model");
    const run = h(
      "button",
      { type: "button", class: "primary", onclick: () => this.run(plan) },
      t("executions.run_it"),
    );
    const drop = h("button", { type: "button", onclick: () => fillElement(this.draft) }, t("executions.drop_it"));
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
      { "aria-label": t("common.state"), onchange: () => this.load() },
      h("option", { value: "" }, t("executions.all_states")),
      options,
    );
    this.text = h("input", {
      type: "search",
      class: "grow",
      placeholder: t("executions.find_executions"),
      "aria-label": t("executions.find_executions"),
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
    const { tools } = await readThresholds(this.signal);
    fillElement(this.labels, tools.length ? renderThresholds(tools) : null);
    const status = this.status?.value ? `EXECUTION_STATUS_${this.status.value}` : "";
    const q = this.text?.value ?? this.query.q ?? "";
    noteQuery({ status: this.status?.value ?? "", q });
    const ask = (token) =>
      listExecutions({ status, query_contains: q, page_size: PAGE, page_token: token }, this.signal);
    this.all = await fetchAll(ask, "executions", MOST);
  }

  draw() {
    this.aside.textContent = formatPlural(this.all.length, "execution");
    if (!this.all.length) return renderEmptyState(t("executions.no_executions"), t("executions.enter_a_task_above_to"));
    this.list = new VirtualList({
      label: t("common.executions"),
      row: renderRow,
      onOpen: ({ execution_id: id }) => openRoute(["executions", id]),
    });
    this.list.show(this.all, ({ execution_id: id }) => id);
    return h("div", null, this.list.element);
  }
}

const renderThresholds = (tools) =>
  h("details", null, h("summary", null, t("executions.labels_of_steps")), tools.map(renderThreshold));

/** What labels show about the results of one tool. */
const renderThreshold = ({ tool, proven_threshold: proven, selected, labelled, waiting, missing, revocations }) =>
  h(
    "p",
    null,
    `${translateWord(tool)}: ${proven == null ? t("executions.no_threshold_proven") : t("executions.proven_above", { proven: proven.toFixed(2) })}; `,
    t("executions.of_selected_steps_labelled_waiting", { labelled, selected, waiting, missing }),
    formatPlural(Number(revocations), "revocation"),
  );

const renderRow = ({ execution_id: id, original_query: query, status, start_time: start }) => [
  h("span", { class: "row-state" }, renderState(readEnum(status, "EXECUTION_STATUS_"))),
  h("span", { class: "line" }, query),
  h("span", { class: "mono muted wide-only" }, id),
  h("span", { class: "muted when" }, renderTime(start)),
];
