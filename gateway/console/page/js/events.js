/** The events of an execution's log, each as a line for people. */

import { h } from "./dom.js";
import { formatMilliseconds, formatPercent, shortenText, formatEnum } from "./format.js";
import { renderTime } from "./parts.js";
import { t } from "./texts.js";

const LONGEST = 300;

const DESCRIPTIONS = {
  started: () => t("events.the_execution_started"),
  step_started: ({ step_id: id, action, attempt }) =>
    t("events.step_called", {
      id,
      action: formatEnum(action, "ACTION_"),
      attempt: attempt > 1 ? t("events.attempt", { attempt }) : "",
    }),
  tool_returned: ({ step_id: id, success, error, execution_time_ms: ms }) =>
    t("events.step_tool_after", {
      id,
      success: success ? t("events.returned") : t("events.failed", { error: error ?? "" }),
      ms: formatMilliseconds(ms),
    }),
  step_finished: ({ result, confidence, level }) =>
    t("events.step_confidence", {
      step_id: result.step_id,
      status: formatEnum(result.status, "STEP_STATUS_"),
      value: formatPercent(confidence?.score),
      level: formatEnum(level, "INTERVENTION_LEVEL_"),
    }),
  step_skipped: ({ step_id: id, reason }) => t("events.step_skipped", { id, reason }),
  intervention_requested: ({ question, message }) => t("events.asked", { question: question ?? message }),
  intervention_answered: ({ response }) =>
    t("events.answered", {
      action: formatEnum(response.action, "INTERVENTION_ACTION_"),
      user_input: response.user_input ? ` “${response.user_input}”` : "",
      timeout_reached: response.timeout_reached ? t("events.no_answer_in_time") : "",
    }),
  replanned: ({ trigger, strategy, reason }) =>
    t("events.replanned_after", {
      trigger: formatEnum(trigger, "REPLAN_TRIGGER_"),
      strategy: formatEnum(strategy, "REPLAN_STRATEGY_"),
      reason,
    }),
  information_added: ({ text }) => t("events.information_added", { text }),
  log: ({ message }) => message,
  step_in_doubt: ({ step_id: id }) => t("events.step_is_in_doubt_it", { id }),
  cancel_requested: ({ reason }) => t("events.cancelling", { reason: reason ? `: ${reason}` : "" }),
  finished: ({ overall_status: status }) => t("events.ended", { status: formatEnum(status, "EXECUTION_STATUS_") }),
};

/** A list item for an event. */
export function renderEvent(event) {
  const name = Object.keys(DESCRIPTIONS).find((kind) => kind in event);
  const text = name ? DESCRIPTIONS[name](event[name]) : t("events.unknown_event");
  return h(
    "li",
    { class: `event event-${name ?? "unknown"}` },
    h("span", { class: "muted number" }, event.sequence),
    h("span", { class: "text" }, shortenText(text, LONGEST)),
    h("span", { class: "muted when" }, renderTime(event.created_at)),
  );
}
