/** Short texts that connect an agent with hansei, each with a button that copies it. */

import { h } from "./dom.js";
import { renderTabList } from "./parts.js";
import { showToast } from "./states.js";
import { t } from "./texts.js";

export const EXAMPLE_DATASET = "devtools";

const CLAUDE = "hansei hooks install claude";
const PYTHON = `from hansei.client import Client

with Client() as client:
    for result in client.search("${EXAMPLE_DATASET}", "a push was rejected").results:
        print(result.bullet.content)`;
const MCP = `{"mcpServers": {"hansei": {"command": "hansei", "args": ["mcp"]}}}`;

const writeHttpRequest = () => `curl ${location.origin}/v1/search \\
  --json '{"dataset": "${EXAMPLE_DATASET}", "query": {"query_text": "a push was rejected"}}'`;

/** Returns the ways to connect an agent as tabs. */
export function renderSnippets() {
  const snippets = [
    [t("snippets.claude_code"), t("snippets.lessons_at_each_prompt_learning"), CLAUDE],
    ["Python", t("snippets.lessons_for_a_task_from"), PYTHON],
    ["MCP", t("snippets.an_entry_in_the_settings"), MCP],
    ["curl", t("snippets.the_same_over_http"), writeHttpRequest()],
  ];
  return renderTabList(
    t("snippets.ways_to_connect_an_agent"),
    snippets.map(([name, text, code]) => [name, [h("p", { class: "muted" }, text), renderSnippet(name, code)]]),
  );
}

/** Returns a text with a button that copies it. */
export function renderSnippet(name, code) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code);
      showToast(t("snippets.copied"));
    } catch {
      showToast(t("snippets.the_browser_does_not_allow"), "bad");
    }
  };
  const button = h(
    "button",
    { type: "button", "aria-label": t("snippets.copy", { name }), onclick: copy },
    t("snippets.copy_2"),
  );
  return h("div", { class: "snippet" }, h("pre", { class: "output", tabindex: "0", "aria-label": name }, code), button);
}
