/** Settings and models, and the states of the services behind the gateway, refreshed periodically. */

import { fillElement, h } from "../dom.js";
import { listDatasets, readIndexStatus, listServices } from "../endpoints.js";
import { formatCount, readEnum } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderHead, renderHeader, renderState, renderTime, renderWideTable } from "../parts.js";
import { renderSettings } from "../settings.js";
import { renderFailure, loadPart, logUnexpectedError } from "../states.js";
import { LANGUAGE, t } from "../texts.js";

const EVERY_MS = 5000;

const ABOUT = {
  curator: t("health.owns_the_playbooks_curates"),
  reflector: t("health.finds_errors_and_their_causes"),
  search: t("health.finds_bullets"),
  planner: t("health.answers_plans_executes"),
  validator: t("health.checks_evaluates_ranks"),
  evidence: t("health.measures_what_bullets_do"),
};

export const formatTitle = () => t("common.settings");

export function openPage({ signal }) {
  const aside = h("span", { role: "status" });
  const list = h("div", { class: "services" });
  const indexes = h("div", null);
  const look = () => refreshServices(list, aside, signal);
  look();
  const timer = setInterval(() => document.hidden || look(), EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  bindKeys([{ keys: "r", what: t("health.refresh"), run: look }], signal);
  const states = readIndexStates(signal);
  const models = states.then(
    (rows) => [...new Set(rows.map(({ status }) => status.embedding_model).filter(Boolean))],
    () => [],
  );
  loadPart(indexes, signal, () => states, renderTable);
  return [
    renderHead(t("common.settings"), aside),
    h(
      "div",
      { class: "scroll" },
      renderSettings(signal, models),
      h("h2", null, t("health.health_of_the_services")),
      list,
      h("h2", null, t("health.indexes_of_search")),
      indexes,
    ),
  ];
}

async function refreshServices(list, aside, signal) {
  try {
    const { services: all } = await listServices(signal);
    fillElement(list, all.map(renderService));
    fillElement(aside, t("health.updated_at", { time: new Date().toLocaleTimeString(LANGUAGE) }));
  } catch (error) {
    if (signal.aborted) return;
    logUnexpectedError(error);
    fillElement(
      list,
      renderFailure(error, () => refreshServices(list, aside, signal)),
    );
  }
}

function renderService({ name, state: status, detail }) {
  return h(
    "article",
    { class: "card service" },
    h("div", { class: "card-head" }, h("h2", null, name), renderState(readEnum(status, ""))),
    h("p", { class: "muted" }, ABOUT[name] ?? ""),
    detail ? h("p", { class: "bad text" }, detail) : null,
  );
}

const MOST = 50;

async function readIndexStates(signal) {
  const all = await listDatasets(signal);
  const shown = all.slice(0, MOST);
  return Promise.all(shown.map(async (dataset) => ({ dataset, status: await readIndexStatus(dataset.name, signal) })));
}

/** Compares the revisions of index and playbook; the first search of a dataset creates its index. */
function compareRevisions({ revision }, { revision: at, last_event_at: lastEvent }) {
  if (!lastEvent && !Number(at)) return t("health.not_searched_yet");
  return Number(revision) > Number(at) ? "behind" : "live";
}

function renderTable(rows) {
  if (!rows.length) return h("p", { class: "muted" }, t("health.there_is_no_playbook_yet"));
  const headings = [
    renderHeader(t("common.dataset")),
    renderHeader(t("health.indexed_bullets"), "number"),
    renderHeader(t("common.revision"), "number"),
    renderHeader(t("health.index_at"), "number"),
    renderHeader(t("common.feed")),
    renderHeader(t("health.last_event")),
    renderHeader(t("common.embedding_model")),
  ];
  const lines = rows.map(({ dataset, status }) => {
    const feed = status.feed_error
      ? h("span", { class: "bad text" }, status.feed_error)
      : renderState(compareRevisions(dataset, status));
    const cells = [formatCount(status.bullets), dataset.revision, status.revision];
    return h(
      "tr",
      null,
      h("td", null, dataset.name),
      cells.map((value) => h("td", { class: "number" }, value)),
      h("td", null, feed),
      h("td", null, renderTime(status.last_event_at)),
      h("td", { class: "muted" }, status.embedding_model),
    );
  });
  return renderWideTable(t("health.indexes"), headings, lines);
}
