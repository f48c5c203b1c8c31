/** Trajectories of users: the names of the formats, a preview, and an example. */

import { h } from "./dom.js";
import { formatCount, formatPlural, shortenText, readEnum } from "./format.js";
import { renderState } from "./parts.js";
import { t } from "./texts.js";

/** The names of the formats for people. */
export const FORMATS = {
  TRAJECTORY_FORMAT_HANSEI: "hansei",
  TRAJECTORY_FORMAT_OPENAI: t("trajectories.openai_messages"),
  TRAJECTORY_FORMAT_OPENAI_RESPONSES: t("trajectories.openai_responses_items"),
  TRAJECTORY_FORMAT_PYDANTIC_AI: t("trajectories.pydantic_ai_messages"),
  TRAJECTORY_FORMAT_ANTHROPIC: t("trajectories.anthropic_messages"),
  TRAJECTORY_FORMAT_LANGCHAIN: t("trajectories.langchain_messages"),
  TRAJECTORY_FORMAT_CLAUDE_CODE: t("trajectories.claude_code_transcript"),
  TRAJECTORY_FORMAT_CODEX: t("trajectories.codex_rollout"),
  TRAJECTORY_FORMAT_CURSOR: t("trajectories.cursor_transcript"),
  TRAJECTORY_FORMAT_AGENTS_SDK: t("trajectories.openai_agents_sdk_trace"),
  TRAJECTORY_FORMAT_LANGSMITH: t("trajectories.langsmith_runs"),
  TRAJECTORY_FORMAT_LANGFUSE: t("trajectories.langfuse_observations"),
  TRAJECTORY_FORMAT_SMOLAGENTS: t("trajectories.smolagents_steps"),
  TRAJECTORY_FORMAT_SWE_AGENT: "SWE-agent",
  TRAJECTORY_FORMAT_ATIF: "ATIF",
  TRAJECTORY_FORMAT_OTEL: t("trajectories.opentelemetry_genai_spans"),
  TRAJECTORY_FORMAT_TAU_BENCH: "tau-bench",
  TRAJECTORY_FORMAT_TAU2_BENCH: "tau2-bench",
  TRAJECTORY_FORMAT_STATE_BENCH: "STATE-Bench",
  TRAJECTORY_FORMAT_WHO_AND_WHEN: "Who&When",
};

const SHOWN = 5;
const LINE = 240;

/** Returns the first trajectories, one a line. */
export function renderPreview(trajectories) {
  const lines = trajectories
    .slice(0, SHOWN)
    .map(({ trajectory: { query, status, steps } }) =>
      h(
        "li",
        null,
        h(
          "span",
          { class: "line" },
          shortenText(query, LINE) || h("span", { class: "muted" }, t("trajectories.no_question")),
        ),
        renderState(readEnum(status, "TRAJECTORY_STATUS_") || "unknown"),
        h("span", { class: "muted" }, formatPlural(steps.length, "step")),
      ),
    );
  const rest = trajectories.length - lines.length;
  return h(
    "ul",
    { class: "records plain" },
    lines,
    rest > 0 ? h("li", { class: "muted" }, t("trajectories.and_more", { rest: formatCount(rest) })) : null,
  );
}

/** Returns a parsed trajectory with this dataset in place of its own. */
export const replaceDataset = (found, dataset) => ({ ...found, trajectory: { ...found.trajectory, dataset } });

export const EXAMPLE = {
  query: "Commit the fix",
  status: "TRAJECTORY_STATUS_FAILURE",
  generated_answer: "I could not commit.",
  steps: [
    {
      role: "STEP_ROLE_ASSISTANT",
      tool_calls: [{ id: "1", name: "git", arguments: '{"args": ["commit", "-m", "fix"]}' }],
    },
    {
      role: "STEP_ROLE_TOOL",
      name: "git",
      tool_call_id: "1",
      content: "exit code 128\nfatal: unable to auto-detect email address",
    },
    {
      role: "STEP_ROLE_ASSISTANT",
      tool_calls: [{ id: "2", name: "git", arguments: '{"args": ["config", "user.email", "agent@example.com"]}' }],
    },
    { role: "STEP_ROLE_TOOL", name: "git", tool_call_id: "2", content: "" },
  ],
};
