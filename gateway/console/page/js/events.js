/** The events of an execution's log, each as a line for people. */

import { h } from "./dom.js";
import { formatMilliseconds, formatPercent, shortenText, formatEnum } from "./format.js";
import { renderTime } from "./parts.js";

const LONGEST = 300;

const DESCRIPTIONS = {
  started: () => "The execution started",
  step_started: ({ step_id: id, action, attempt }) =>
    `Step ${id}: ${formatEnum(action, "ACTION_")} called${attempt > 1 ? `, attempt ${attempt}` : ""}`,
  tool_returned: ({ step_id: id, success, error, execution_time_ms: ms }) =>
    `Step ${id}: tool ${success ? "returned" : `failed: ${error ?? ""}`} after ${formatMilliseconds(ms)}`,
  step_finished: ({ result, confidence, level }) =>
    `Step ${result.step_id}: ${formatEnum(result.status, "STEP_STATUS_")}, confidence ${formatPercent(confidence?.score)}, ${formatEnum(level, "INTERVENTION_LEVEL_")}`,
  step_skipped: ({ step_id: id, reason }) => `Step ${id} skipped: ${reason}`,
  intervention_requested: ({ question, message }) => `Asked: ${question ?? message}`,
  intervention_answered: ({ response }) =>
    `Answered: ${formatEnum(response.action, "INTERVENTION_ACTION_")}${response.user_input ? ` “${response.user_input}”` : ""}${response.timeout_reached ? " (no answer in time)" : ""}`,
  replanned: ({ trigger, strategy, reason }) =>
    `Replanned after ${formatEnum(trigger, "REPLAN_TRIGGER_")}, ${formatEnum(strategy, "REPLAN_STRATEGY_")}: ${reason}`,
  information_added: ({ text }) => `Information added: ${text}`,
  log: ({ message }) => message,
  step_in_doubt: ({ step_id: id }) => `Step ${id} is in doubt: it is unknown whether its tool took effect`,
  cancel_requested: ({ reason }) => `Cancelling${reason ? `: ${reason}` : ""}`,
  finished: ({ overall_status: status }) => `Ended: ${formatEnum(status, "EXECUTION_STATUS_")}`,
};

/** A list item for an event. */
export function renderEvent(event) {
  const name = Object.keys(DESCRIPTIONS).find((kind) => kind in event);
  const text = name ? DESCRIPTIONS[name](event[name]) : "Unknown event";
  return h(
    "li",
    { class: `event event-${name ?? "unknown"}` },
    h("span", { class: "muted number" }, event.sequence),
    h("span", { class: "text" }, shortenText(text, LONGEST)),
    h("span", { class: "muted when" }, renderTime(event.created_at)),
  );
}
