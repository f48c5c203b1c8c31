/** Short texts that connect an agent with hansei, each with a button that copies it. */

import { h } from "./dom.js";
import { renderTabList } from "./parts.js";
import { showToast } from "./states.js";

export const EXAMPLE_DATASET = "devtools";

const CLAUDE = "hansei hooks install claude";
const PYTHON = `from hansei.client import Client

with Client() as client:
    for result in client.search("${EXAMPLE_DATASET}", "a push was rejected").results:
        print(result.bullet.content)`;
const MCP = `{"mcpServers": {"hansei": {"command": "hansei", "args": ["mcp"]}}}`;

const writeCurl = () => `curl ${location.origin}/v1/search \\
  --json '{"dataset": "${EXAMPLE_DATASET}", "query": {"query_text": "a push was rejected"}}'`;

/** Returns the ways to connect an agent as tabs. */
export function renderSnippets() {
  const snippets = [
    ["Claude Code", "Lessons at each prompt, learning after each session.", CLAUDE],
    ["Python", "Lessons for a task, from your own agent.", PYTHON],
    ["MCP", "An entry in the settings of any MCP client.", MCP],
    ["curl", "The same over HTTP.", writeCurl()],
  ];
  return renderTabList(
    "Ways to connect an agent",
    snippets.map(([name, text, code]) => [name, [h("p", { class: "muted" }, text), renderSnippet(name, code)]]),
  );
}

/** Returns a text with a button that copies it. */
export function renderSnippet(name, code) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(code);
      showToast("Copied.");
    } catch {
      showToast("The browser does not allow copying; select the text instead.", "bad");
    }
  };
  const button = h("button", { type: "button", "aria-label": `Copy ${name}`, onclick: copy }, "Copy");
  return h("div", { class: "snippet" }, h("pre", { class: "output", tabindex: "0", "aria-label": name }, code), button);
}
