/** Short texts that connect an agent with hansei, each with a button that copies it. */

import { h } from "./dom.js";
import { readAbout } from "./endpoints.js";
import { renderTabList } from "./parts.js";
import { loadPart, showToast } from "./states.js";
import { t } from "./texts.js";

export const EXAMPLE_DATASET = "devtools";

/** The port of gRPC if the gateway does not state its own. */
const GRPC_PORT = 50050;

const writeHookCommand = (dataset, address) =>
  `hansei hooks install claude --dataset ${dataset} --url ${location.origin} --addr ${address}`;

const writePython = (dataset, address) => `from hansei.client import Client

with Client("${address}") as client:
    for result in client.search("${dataset}", "a push was rejected").results:
        print(result.bullet.content)`;

const writeMcpEntry = (dataset, address) =>
  JSON.stringify(
    { mcpServers: { hansei: { command: "hansei", args: ["mcp", "--dataset", dataset, "--addr", address] } } },
    null,
    2,
  );

const writeHttpRequest = (dataset) => `curl ${location.origin}/v1/search \\
  --json '{"dataset": "${dataset}", "query": {"query_text": "a push was rejected"}}'`;

/** Returns the ways to connect an agent to this gateway and a dataset, as tabs. */
export function renderSnippets(dataset, signal) {
  const tabs = h("div", null);
  loadPart(
    tabs,
    signal,
    () => readAbout(signal),
    ({ grpc_port: port }) => renderWays(dataset, `${location.hostname}:${port || GRPC_PORT}`),
  );
  return tabs;
}

function renderWays(dataset, address) {
  const snippets = [
    [t("snippets.claude_code"), t("snippets.lessons_at_each_prompt_learning"), writeHookCommand(dataset, address)],
    ["Python", t("snippets.lessons_for_a_task_from"), writePython(dataset, address)],
    ["MCP", t("snippets.an_entry_in_the_settings"), writeMcpEntry(dataset, address)],
    ["curl", t("snippets.the_same_over_http"), writeHttpRequest(dataset)],
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
