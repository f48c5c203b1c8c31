/** One execution as it runs: its plan as a graph with live states, the open question, and the log. */

import { fill, h } from "../dom.js";
import { addInformation, answer, cancelExecution, readExecution, watchExecution } from "../endpoints.js";
import { ask } from "../dialog.js";
import { formatMilliseconds, percent, plural, shortened, word } from "../format.js";
import { bind } from "../keys.js";
import { line } from "../events.js";
import { confidence, facts, head, key, state, when } from "../parts.js";
import { drawPlanGraph } from "../plan.js";
import { question } from "../question.js";
import { go } from "../router.js";
import { change, load, report, toast } from "../states.js";

const ENDED = new Set(["success", "partial", "failed", "cancelled"]);
const MOST_LINES = 500;

export const title = () => "Execution";

export function open({ params: { id }, signal }) {
  const view = new Execution(id, signal);
  load(
    view.body,
    signal,
    () => view.read(),
    () => view.draw(),
  );
  return [head("Execution", view.aside), view.body];
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
    bind(
      [
        { keys: "c", what: "cancel the execution", run: () => this.cancel() },
        { keys: "i", what: "add information", run: () => this.addInformation() },
        {
          keys: "y",
          what: "confirm the open question",
          run: () => this.body.querySelector("[data-answer=proceed]")?.click(),
        },
        { keys: "Escape, u", what: "back to all executions", run: () => go(["executions"]) },
      ],
      signal,
    );
  }

  async read() {
    this.execution = (await readExecution(this.id, this.signal)).execution;
  }

  get status() {
    return word(this.execution.status, "EXECUTION_STATUS_");
  }

  draw() {
    const { plan } = this.execution;
    const buttons = h(
      "div",
      { class: "actions" },
      h("button", { type: "button", class: "danger", onclick: () => this.cancel() }, "Cancel… ", key("c")),
      h("button", { type: "button", onclick: () => this.addInformation() }, "Add information… ", key("i")),
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
      h("h3", null, "Log"),
      this.log,
    ];
  }

  /** Draws the state of the execution. */
  show() {
    const { execution } = this;
    fill(
      this.aside,
      state(this.status),
      h("span", { class: "mono" }, this.id),
      execution.replan_count ? plural(execution.replan_count, "replan") : null,
    );
    const focused = document.activeElement?.dataset?.step;
    fill(
      this.picture,
      drawPlanGraph(
        execution.plan.steps,
        (step) => this.statusOf(step),
        (step) => this.showStep(step),
      ),
    );
    if (focused) this.picture.querySelector(`[data-step="${focused}"]`)?.focus();
    this.buttons.hidden = ENDED.has(this.status);
    fill(this.side, this.renderDetails());
    this.ask();
  }

  statusOf({ step_id: id }) {
    return word(this.execution.step_statuses[id] ?? "STEP_STATUS_PENDING", "STEP_STATUS_");
  }

  /** The result, or the step that was chosen. */
  renderDetails() {
    const { result, step_results: results } = this.execution;
    const step = this.execution.plan.steps.find(({ step_id: id }) => id === this.step);
    if (step)
      return renderStep(
        step,
        results.find(({ step_id: id }) => id === this.step),
        this.statusOf(step),
      );
    if (!result) return null;
    return h(
      "section",
      { class: "card" },
      h("h2", null, "Answer"),
      h("p", { class: "text lead" }, result.final_answer ?? "There is no answer."),
      renderResultFacts(result),
    );
  }

  showStep({ step_id: id }) {
    this.step = this.step === id ? null : id;
    fill(this.side, this.renderDetails());
  }

  ask() {
    const open = this.execution.intervention_request;
    const token = open?.answer_token ?? "";
    if (this.token === token) return;
    this.token = token;
    fill(this.questionBox, open ? question(open, (response) => this.answer(open, response)) : null);
  }

  async answer({ answer_token: token, plan_version: version, step_id: step }, response) {
    const body = {
      response,
      answer_token: token,
      plan_version: version,
      ...(step === undefined ? {} : { step_id: step }),
    };
    // The feed shows the further events; only the first event of this stream is needed.
    await change(async () => {
      for await (const event of answer(this.id, body, this.signal)) return event;
      return null;
    }, "Answered.");
  }

  async follow() {
    try {
      await watchExecution(this.id, { signal: this.signal, take: ({ event }) => this.addEvent(event) });
      await this.refresh();
    } catch (error) {
      if (this.signal.aborted) return;
      report(error);
      toast(`Updates of the execution stopped: ${error.message}`, "bad");
    }
  }

  addEvent(event) {
    this.log.prepend(line(event));
    while (this.log.children.length > MOST_LINES) this.log.lastChild.remove();
    if (Number(event.sequence) > Number(this.execution.sequence)) this.scheduleRefresh();
  }

  /** Reads the state once for a burst of events. */
  scheduleRefresh() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh().catch(report), 60);
  }

  async refresh() {
    if (this.signal.aborted) return;
    await this.read();
    this.show();
  }

  async cancel() {
    if (!this.execution || ENDED.has(this.status)) return;
    const fields = [{ name: "reason", label: "Why" }];
    const reply = await ask({
      title: "Cancel this execution?",
      text: "Running tools get a signal; no further step starts.",
      fields,
      confirm: "Cancel it",
      danger: true,
    });
    if (reply) await change(() => cancelExecution(this.id, reply.reason), "Cancelled.");
  }

  async addInformation() {
    if (!this.execution || ENDED.has(this.status)) return;
    const fields = [{ name: "text", label: "Information for the execution", kind: "long", required: true }];
    const reply = await ask({
      title: "Add information",
      text: "The execution replans before its next step.",
      fields,
      confirm: "Add",
    });
    if (reply) await change(() => addInformation(this.id, reply.text), "Added.");
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
      h("h2", null, `Step ${step.step_id}: ${word(step.action, "ACTION_")}`),
      state(status),
    ),
    h("p", { class: "text" }, step.description),
    facts([
      ["Query", step.query],
      ["Dataset or collection", step.collection],
      ["Needs", step.depends_on.length ? `steps ${step.depends_on.join(", ")}` : ""],
      ["Fallback", word(step.fallback, "ACTION_")],
      ["Confidence", result ? confidence(score) : null],
      ["Took", ms === undefined ? null : formatMilliseconds(ms)],
      ["Sources", sources.join(", ")],
      ["Failed", error ? h("span", { class: "bad text" }, error) : null],
    ]),
    output ? h("pre", { class: "output" }, shortened(output, 20000)) : null,
  );
}

function renderResultFacts({
  overall_confidence: score,
  total_execution_time_ms: ms,
  total_token_usage: tokens,
  total_cost_usd: cost,
  created_at: ended,
}) {
  return facts([
    ["Confidence", h("span", null, percent(score))],
    ["Took", ms === undefined ? null : formatMilliseconds(ms)],
    ["Tokens", tokens],
    ["Cost", cost === undefined ? null : `$${Number(cost).toFixed(4)}`],
    ["Ended", when(ended)],
  ]);
}
