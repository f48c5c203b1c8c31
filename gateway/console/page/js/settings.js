/** What hansei runs with: version, models, the place of the data. */

import { h } from "./dom.js";
import { readAbout } from "./endpoints.js";
import { renderFacts } from "./parts.js";
import { loadPart } from "./states.js";
import { t, translateWord } from "./texts.js";

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
      [t("settings.version"), version || translateWord("unknown")],
      [t("settings.chat_model"), isOffline ? t("settings.none_the_agents_work_by") : `${model} (${provider})`],
      [t("common.embedding_model"), models.join(", ") || t("settings.not_used_yet")],
      [t("settings.data"), folder ? h("span", { class: "mono" }, folder) : t("settings.known_to_the_operator_of")],
    ]),
    isOffline ? h("p", { class: "muted" }, t("settings.with_a_model_lessons_are")) : null,
  ];
}
