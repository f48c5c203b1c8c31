/** One step of a trajectory: who speaks, the text, the tool calls, and whether it is an error. */

import { h } from "./dom.js";
import { formatCount } from "./format.js";
import { renderChip, renderState } from "./parts.js";
import { t } from "./texts.js";

const SPEAKERS = {
  STEP_ROLE_SYSTEM: t("trace.system"),
  STEP_ROLE_USER: t("trace.user"),
  STEP_ROLE_ASSISTANT: t("common.agent"),
  STEP_ROLE_TOOL: t("trace.tool_result"),
};
/** Longer texts are cut until the reader asks for the rest. */
const LONG = 3000;

/** Returns a text as it is; of a long one its beginning, and a button that shows all of it. */
export function renderLongText(text, kind) {
  const shown = h("p", { class: kind }, text.length > LONG ? text.slice(0, LONG) : text);
  if (text.length <= LONG) return shown;
  const showAll = () => {
    shown.textContent = text;
    button.remove();
  };
  const button = h(
    "button",
    { type: "button", class: "rest", onclick: showAll },
    t("trace.show_all_characters", { length: formatCount(text.length) }),
  );
  return h("div", null, shown, button);
}

/** Draws a step; `address` and `calls` are links to it and to the call that it answers, `learned` links to bullets. */
export function drawStep({ role, name, content, tool_calls: toolCalls }, { index, error, address, calls, learned }) {
  const isTool = role === "STEP_ROLE_TOOL";
  return h(
    "li",
    { class: `card trace-step ${error ? "trace-error" : ""}`, "data-step": index, tabindex: "-1" },
    h(
      "div",
      { class: "card-head" },
      h("span", { class: "number" }, address),
      h("span", { class: "strong" }, SPEAKERS[role] ?? t("common.unknown")),
      name ? renderChip(name) : null,
      calls ? h("span", { class: "muted" }, t("trace.for_the_call_of"), calls) : null,
      error ? renderState("error") : null,
    ),
    content
      ? renderLongText(content, isTool ? "text mono" : "text")
      : isTool
        ? h("p", { class: "muted" }, t("trace.no_output"))
        : null,
    toolCalls.map(drawCall),
    learned.length
      ? h(
          "div",
          { class: "learned-here" },
          h("span", { class: "muted" }, t("trace.learned_from_this_step")),
          h(
            "ul",
            { class: "plain" },
            learned.map((bullet) => h("li", null, bullet)),
          ),
        )
      : null,
  );
}

function drawCall({ name, arguments: written }) {
  return h(
    "div",
    { class: "call" },
    h("p", null, h("span", { class: "muted" }, t("trace.calls")), h("span", { class: "mono strong" }, name)),
    written ? renderLongText(indentJson(written), "text mono") : h("p", { class: "muted" }, t("trace.no_arguments")),
  );
}

/** Returns JSON with line breaks and other text as it is; numbers and repeated keys must not change, so it must be equal. */
function indentJson(written) {
  try {
    const value = JSON.parse(written);
    const isUnchanged = JSON.stringify(value) === written.replace(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");
    return isUnchanged ? JSON.stringify(value, null, 2) : written;
  } catch {
    return written;
  }
}
