/** Settings and models, and the states of the services behind the gateway, refreshed periodically. */

import { fillElement, h } from "../dom.js";
import { listDatasets, readIndexStatus, listServices } from "../endpoints.js";
import { formatCount, formatEnum } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderHead, renderState, renderTime } from "../parts.js";
import { renderSettings } from "../settings.js";
import { renderFailure, loadPart, reportError } from "../states.js";

const EVERY_MS = 5000;
const NUMBERS = new Set(["Bullets", "Revision", "Index at"]);

const ABOUT = {
  curator: "Owns the playbooks; curates",
  reflector: "Finds errors and their causes",
  search: "Finds bullets",
  planner: "Answers, plans, executes",
  validator: "Checks, evaluates, ranks",
  evidence: "Measures what bullets do",
};

export const formatTitle = () => "Settings";

export function openPage({ signal }) {
  const aside = h("span", { role: "status" });
  const list = h("div", { class: "services" });
  const indexes = h("div", null);
  const look = () => refreshServices(list, aside, signal);
  look();
  const timer = setInterval(() => document.hidden || look(), EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  bindKeys([{ keys: "r", what: "refresh", run: look }], signal);
  const states = readIndexStates(signal);
  const models = states.then(
    (rows) => [...new Set(rows.map(({ status }) => status.embedding_model).filter(Boolean))],
    () => [],
  );
  loadPart(indexes, signal, () => states, renderTable);
  return [
    renderHead("Settings", aside),
    h(
      "div",
      { class: "scroll" },
      renderSettings(signal, models),
      h("h3", null, "Health of the services"),
      list,
      h("h3", null, "Indexes of search"),
      indexes,
    ),
  ];
}

async function refreshServices(list, aside, signal) {
  try {
    const { services: all } = await listServices(signal);
    fillElement(list, all.map(renderService));
    fillElement(aside, `updated at ${new Date().toLocaleTimeString()}`);
  } catch (error) {
    if (signal.aborted) return;
    reportError(error);
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
    h("div", { class: "card-head" }, h("h2", null, name), renderState(formatEnum(status, ""))),
    h("p", { class: "muted" }, ABOUT[name] ?? ""),
    detail ? h("p", { class: "bad text" }, detail) : null,
  );
}

const MOST = 50;

async function readIndexStates(signal) {
  const { datasets: all } = await listDatasets(signal);
  const shown = all.slice(0, MOST);
  return Promise.all(shown.map(async (dataset) => ({ dataset, status: await readIndexStatus(dataset.name, signal) })));
}

/** Compares the revisions of index and playbook; the first search of a dataset creates its index. */
function compareRevisions({ revision }, { revision: at, last_event_at: lastEvent }) {
  if (!lastEvent && !Number(at)) return "not searched yet";
  return Number(revision) > Number(at) ? "behind" : "live";
}

function renderTable(rows) {
  if (!rows.length) return h("p", { class: "muted" }, "There is no playbook yet, so there is nothing to index.");
  const names = ["Dataset", "Bullets", "Revision", "Index at", "Feed", "Last event", "Embedding model"];
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
  return h(
    "div",
    { class: "wide", role: "region", "aria-label": "Indexes", tabindex: "0" },
    h(
      "table",
      { class: "table" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          names.map((name) => h("th", { scope: "col", class: NUMBERS.has(name) ? "number" : "" }, name)),
        ),
      ),
      h("tbody", null, lines),
    ),
  );
}
