/** The open question of an execution: confirm, answer, modify, retry, leave out or cancel. */

import { askPerson } from "./dialog.js";
import { h } from "./dom.js";
import { formatEnum } from "./format.js";
import { renderChip, renderConfidence, renderKey, renderTime } from "./parts.js";
import { showToast } from "./states.js";

/** The question as a form; `respond(response)` sends the answer. */
export function renderQuestion(open, respond) {
  const {
    level,
    step_id: step,
    message,
    question: questionText,
    reason,
    options,
    confidence_score: score,
    expires_at: expires,
  } = open;
  const send = (action, more = {}) => respond({ action: `INTERVENTION_ACTION_${action}`, ...more });
  const head = h(
    "div",
    { class: "card-head" },
    renderChip(formatEnum(level, "INTERVENTION_LEVEL_"), "state-warn"),
    h("h2", null, step === undefined ? "About the plan" : `About step ${step}`),
    h("span", { class: "muted end" }, "expires ", renderTime(expires)),
  );
  return h(
    "section",
    { class: "card question", "aria-label": "Open question" },
    head,
    h("p", { class: "text lead" }, questionText ?? message),
    questionText && message !== questionText ? h("p", { class: "text muted" }, message) : null,
    reason ? h("p", { class: "text muted" }, reason) : null,
    score === undefined ? null : h("p", null, renderConfidence(score)),
    renderInput(send),
    renderDecisions(open, send),
    renderOptions(options, respond),
  );
}

/** Shows the answers that the planner proposes. */
function renderOptions(options, respond) {
  if (!options.length) return null;
  const buttons = options.map((text) =>
    h("button", { type: "button", onclick: () => respond({ selected_option: text }) }, text),
  );
  return h("div", { class: "offered" }, h("span", { class: "muted" }, "Offered:"), buttons);
}

/** Shows a field for an answer in words. */
function renderInput(send) {
  const text = h("input", {
    class: "grow",
    required: true,
    autocomplete: "off",
    "aria-label": "Answer",
    placeholder: "Answer in words",
  });
  const form = h("form", { class: "answer" }, text, h("button", null, "Answer"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send("INPUT", { user_input: text.value });
  });
  return form;
}

function renderDecisions({ step_id: step, plan }, send) {
  const button = (text, act, props = {}) => h("button", { type: "button", onclick: act, ...props }, text);
  return h(
    "div",
    { class: "actions" },
    button(["Confirm ", renderKey("y")], () => send("PROCEED"), { class: "primary", "data-answer": "proceed" }),
    button("Modify…", () => modifyPlan(plan, send)),
    step === undefined ? null : [button("Run again", () => send("RETRY")), button("Skip", () => send("SKIP"))],
    button("Cancel the execution", () => send("CANCEL"), { class: "danger" }),
  );
}

/** Asks for another plan: described in words, or as a message of the contract. */
async function modifyPlan(plan, send) {
  const whole = JSON.stringify(plan, null, 2);
  const reply = await askPerson({
    title: "Modify the plan",
    text: "Describe the change in words, or edit the plan itself; words take precedence.",
    fields: [
      { name: "words", label: "In words" },
      { name: "plan", label: "The plan", kind: "long", value: whole },
    ],
    confirm: "Modify",
  });
  if (!reply) return null;
  if (reply.words) return send("MODIFY", { user_input: reply.words });
  try {
    return send("MODIFY", { modified_plan: JSON.parse(reply.plan) });
  } catch (error) {
    return showToast(`The plan is not JSON: ${error.message}`, "bad");
  }
}
