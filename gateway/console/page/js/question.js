/** The open question of an execution: confirm, answer, modify, retry, leave out or cancel. */

import { Refusal } from "./api.js";
import { askInDialog } from "./dialog.js";
import { h } from "./dom.js";
import { formatEnum } from "./format.js";
import { renderChip, renderConfidence, renderKey, renderTime } from "./parts.js";
import { runChange } from "./states.js";
import { t } from "./texts.js";

/**
 * The question as a form; `respond(response)` sends the answer and returns the event that it caused. The options of the
 * question are not shown: they name the same actions as the buttons, in the language of the plan.
 */
export function renderQuestion(open, respond) {
  const {
    level,
    step_id: step,
    message,
    question: questionText,
    reason,
    confidence_score: score,
    expires_at: expires,
  } = open;
  const send = (action, more = {}) => respond({ action: `INTERVENTION_ACTION_${action}`, ...more });
  const answer = (...response) => runChange(() => send(...response), t("execution.answered"));
  const head = h(
    "div",
    { class: "card-head" },
    renderChip(formatEnum(level, "INTERVENTION_LEVEL_"), "state-warn"),
    h("h2", null, step === undefined ? t("question.about_the_plan") : t("question.about_step", { step })),
    h("span", { class: "muted end" }, t("question.expires"), renderTime(expires)),
  );
  return h(
    "section",
    { class: "card question", "aria-label": t("question.open_question") },
    head,
    h("p", { class: "text lead" }, questionText ?? message),
    questionText && message !== questionText ? h("p", { class: "text muted" }, message) : null,
    reason ? h("p", { class: "text muted" }, reason) : null,
    score === undefined ? null : h("p", null, renderConfidence(score)),
    renderInput(answer),
    renderDecisions(open, answer, send),
  );
}

/** Shows a field for an answer in words. */
function renderInput(answer) {
  const text = h("input", {
    class: "grow",
    required: true,
    autocomplete: "off",
    "aria-label": t("common.answer"),
    placeholder: t("question.answer_in_words"),
  });
  const form = h("form", { class: "answer" }, text, h("button", null, t("common.answer")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer("INPUT", { user_input: text.value });
  });
  return form;
}

function renderDecisions({ step_id: step, plan }, answer, send) {
  const button = (text, act, props = {}) => h("button", { type: "button", onclick: act, ...props }, text);
  return h(
    "div",
    { class: "actions" },
    button([t("question.confirm"), renderKey("y")], () => answer("PROCEED"), {
      class: "primary",
      "data-answer": "proceed",
    }),
    button(t("question.modify_2"), () => modifyPlan(plan, send)),
    step === undefined
      ? null
      : [button(t("question.run_again"), () => answer("RETRY")), button(t("question.skip"), () => answer("SKIP"))],
    button(t("question.cancel_the_execution"), () => answer("CANCEL"), { class: "danger" }),
  );
}

/** Asks for another plan: described in words, or as a message of the contract. */
async function modifyPlan(plan, send) {
  const whole = JSON.stringify(plan, null, 2);
  await askInDialog({
    title: t("question.modify_the_plan"),
    text: t("question.describe_the_change_in_words"),
    fields: [
      { name: "words", label: t("question.in_words") },
      { name: "plan", label: t("question.the_plan"), kind: "long", value: whole },
    ],
    confirm: t("question.modify"),
    act: ({ words, plan: text }) => {
      if (words && text !== whole) throw new Refusal(t("question.either_words_or_the_plan"));
      return send("MODIFY", words ? { user_input: words } : { modified_plan: parsePlan(text) });
    },
    done: t("execution.answered"),
  });
}

function parsePlan(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Refusal(t("question.the_plan_is_not_json", { message: error.message }));
  }
}
