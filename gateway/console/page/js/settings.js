/** What hansei runs with: version, models, the place of the data. */

import { h } from "./dom.js";
import { readAbout } from "./endpoints.js";
import { renderFacts } from "./parts.js";
import { loadPart } from "./states.js";

/** Returns the facts about the gateway; `models` are the embedding models of the indexes, when they are read. */
export function renderSettings(signal, models) {
  const facts = h("div", null);
  loadPart(
    facts,
    signal,
    async () => [await readAbout(signal), await models],
    ([about, names]) => renderAbout(about, names),
  );
  return facts;
}

function renderAbout({ version, llm_provider: provider, llm_model: model, data_directory: folder }, models) {
  const isOffline = provider === "offline";
  return [
    renderFacts([
      ["Version", version || "unknown"],
      ["Chat model", isOffline ? "none: the agents work by rules" : `${model} (${provider})`],
      ["Embedding model", models.join(", ") || "not used yet"],
      ["Data", folder ? h("span", { class: "mono" }, folder) : "known to the operator of the gateway"],
    ]),
    isOffline
      ? h(
          "p",
          { class: "muted" },
          "With a model, lessons are worded better and more errors are explained: set LLM_PROVIDER and LLM_MODEL, and start hansei again.",
        )
      : null,
  ];
}
