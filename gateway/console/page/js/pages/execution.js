/** One execution as it runs: its plan as a graph with live states, the open question, and the log. */

import { fillElement, h } from "../dom.js";
import { addInformation, answerQuestion, cancelExecution, readExecution, watchExecution } from "../endpoints.js";
import { askInDialog } from "../dialog.js";
import { formatMilliseconds, formatPercent, formatPlural, shortenText, formatEnum, readEnum } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderEvent } from "../events.js";
import { renderConfidence, renderFacts, renderHead, renderKey, renderState, renderTime } from "../parts.js";
import { drawPlanGraph } from "../plan.js";
import { renderQuestion } from "../question.js";
import { openRoute } from "../router.js";
import { loadPart, logUnexpectedError, showToast } from "../states.js";
import { t } from "../texts.js";

const ENDED = new Set(["success", "partial", "failed", "cancelled"]);
const MOST_LINES = 500;

export const formatTitle = () => t("execution.execution");

export function openPage({ params: { id }, signal }) {
  const view = new Execution(id, signal);
  loadPart(
    view.body,
    signal,
    () => view.read(),
    () => view.draw(),
  );
  return [renderHead(t("execution.execution"), view.aside), view.body];
}

class Execution {
  constructor(id, signal) {
    Object.assign(this, { id, signal, step: null });
    this.aside = h("span", { role: "status" });
    this.body = h("div", { class: "scroll" });
    this.questionBox = h("div", { "aria-live": "assertive" });
    this.picture = h("div", null);
    this.side = h("div", null);
    this.log = h("ol", { class: "log" });
    bindKeys(
      [
        { keys: "c", what: t("execution.cancel_the_execution"), run: () => this.cancel() },
        { keys: "i", what: t("execution.add_information_2_2"), run: () => this.addInformation() },
        {
          keys: "y",
          what: t("execution.confirm_the_open_question"),
          run: () => this.body.querySelector("[data-answer=proceed]")?.click(),
        },
        { keys: "Escape, u", what: t("execution.back_to_all_executions"), run: () => openRoute(["executions"]) },
      ],
      signal,
    );
  }

  async read() {
    this.execution = (await readExecution(this.id, this.signal)).execution;
  }

  get status() {
    return readEnum(this.execution.status, "EXECUTION_STATUS_");
  }

  draw() {
    const { plan } = this.execution;
    const buttons = h(
      "div",
      { class: "actions" },
      h(
        "button",
        { type: "button", class: "danger", onclick: () => this.cancel() },
        t("common.cancel"),
        renderKey("c"),
      ),
      h(
        "button",
        { type: "button", onclick: () => this.addInformation() },
        t("execution.add_information_2"),
        renderKey("i"),
      ),
    );
    this.buttons = buttons;
    this.show();
    this.follow();
    return [
      h("p", { class: "text lead" }, plan.original_query),
      this.questionBox,
      this.picture,
      this.side,
      buttons,
      h("h3", null, t("execution.log")),
      this.log,
    ];
  }

  /** Draws the state of the execution. */
  show() {
    const { execution } = this;
    fillElement(
      this.aside,
      renderState(this.status),
      h("span", { class: "mono" }, this.id),
      execution.replan_count ? formatPlural(execution.replan_count, "replan") : null,
    );
    const focused = document.activeElement?.dataset?.step;
    fillElement(
      this.picture,
      drawPlanGraph(
        execution.plan.steps,
        (step) => this.findStatus(step),
        (step) => this.showStep(step),
      ),
    );
    if (focused) this.picture.querySelector(`[data-step="${focused}"]`)?.focus();
    this.buttons.hidden = ENDED.has(this.status);
    fillElement(this.side, this.renderDetails());
    this.ask();
  }

  findStatus({ step_id: id }) {
    return readEnum(this.execution.step_statuses[id] ?? "STEP_STATUS_PENDING", "STEP_STATUS_");
  }

  /** The result, or the step that was chosen. */
  renderDetails() {
    const { result, step_results: results } = this.execution;
    const step = this.execution.plan.steps.find(({ step_id: id }) => id === this.step);
    if (step)
      return renderStep(
        step,
        results.find(({ step_id: id }) => id === this.step),
        this.findStatus(step),
      );
    if (!result) return null;
    return h(
      "section",
      { class: "card" },
      h("h2", null, t("common.answer")),
      h("p", { class: "text lead" }, result.final_answer ?? t("execution.there_is_no_answer")),
      renderResultFacts(result),
    );
  }

  showStep({ step_id: id }) {
    this.step = this.step === id ? null : id;
    fillElement(this.side, this.renderDetails());
  }

  ask() {
    const open = this.execution.intervention_request;
    const token = open?.answer_token ?? "";
    if (this.token === token) return;
    this.token = token;
    fillElement(this.questionBox, open ? renderQuestion(open, (response) => this.answer(open, response)) : null);
  }

  async answer({ answer_token: token, plan_version: version, step_id: step }, response) {
    const body = {
      response,
      answer_token: token,
      plan_version: version,
      ...(step === undefined ? {} : { step_id: step }),
    };
    // The feed shows the further events; only the first event of this stream is needed.
    for await (const event of answerQuestion(this.id, body, this.signal)) return event;
    return {};
  }

  async follow() {
    try {
      await watchExecution(this.id, { signal: this.signal, take: ({ event }) => this.addEvent(event) });
      await this.refresh();
    } catch (error) {
      if (this.signal.aborted) return;
      logUnexpectedError(error);
      showToast(t("execution.updates_of_the_execution_stopped", { message: error.message }), "bad");
    }
  }

  addEvent(event) {
    this.log.prepend(renderEvent(event));
    while (this.log.children.length > MOST_LINES) this.log.lastChild.remove();
    if (Number(event.sequence) > Number(this.execution.sequence)) this.scheduleRefresh();
  }

  /** Reads the state once for a burst of events. */
  scheduleRefresh() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh().catch(logUnexpectedError), 60);
  }

  async refresh() {
    if (this.signal.aborted) return;
    await this.read();
    this.show();
  }

  async cancel() {
    if (!this.execution || ENDED.has(this.status)) return;
    const fields = [{ name: "reason", label: t("common.why") }];
    await askInDialog({
      title: t("execution.cancel_this_execution"),
      text: t("execution.running_tools_get_a_signal"),
      fields,
      confirm: t("common.cancel_it"),
      danger: true,
      act: ({ reason }) => cancelExecution(this.id, reason),
      done: t("execution.cancelled"),
    });
  }

  async addInformation() {
    if (!this.execution || ENDED.has(this.status)) return;
    const fields = [
      { name: "text", label: t("execution.information_for_the_execution"), kind: "long", required: true },
    ];
    await askInDialog({
      title: t("execution.add_information"),
      text: t("execution.the_execution_replans_before_its"),
      fields,
      confirm: t("common.add"),
      act: ({ text }) => addInformation(this.id, text),
      done: t("execution.added"),
    });
  }
}

function renderStep(step, result, status) {
  const { output, error, sources = [], execution_time_ms: ms, confidence: score } = result ?? {};
  return h(
    "section",
    { class: "card" },
    h(
      "div",
      { class: "card-head" },
      h("h2", null, t("execution.step", { step_id: step.step_id, action: formatEnum(step.action, "ACTION_") })),
      renderState(status),
    ),
    h("p", { class: "text" }, step.description),
    renderFacts([
      [t("common.query"), step.query],
      [t("execution.dataset_or_collection"), step.collection],
      [t("execution.needs"), step.depends_on.length ? t("execution.steps", { value: step.depends_on.join(", ") }) : ""],
      [t("execution.fallback"), formatEnum(step.fallback, "ACTION_")],
      [t("common.confidence"), result ? renderConfidence(score) : null],
      [t("execution.took"), ms === undefined ? null : formatMilliseconds(ms)],
      [t("execution.sources"), sources.join(", ")],
      [t("execution.failed"), error ? h("span", { class: "bad text" }, error) : null],
    ]),
    output ? h("pre", { class: "output" }, shortenText(output, 20000)) : null,
  );
}

function renderResultFacts({
  overall_confidence: score,
  total_execution_time_ms: ms,
  total_token_usage: tokens,
  total_cost_usd: cost,
  created_at: ended,
}) {
  return renderFacts([
    [t("common.confidence"), h("span", null, formatPercent(score))],
    [t("execution.took"), ms === undefined ? null : formatMilliseconds(ms)],
    [t("common.tokens"), tokens],
    [t("common.cost"), cost === undefined ? null : `$${Number(cost).toFixed(4)}`],
    [t("common.ended"), renderTime(ended)],
  ]);
}
