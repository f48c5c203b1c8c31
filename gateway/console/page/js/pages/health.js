/** The states of the services behind the gateway, refreshed periodically. */

import { fill, h } from "../dom.js";
import { datasets, index, services } from "../endpoints.js";
import { count, word } from "../format.js";
import { bind } from "../keys.js";
import { head, state, when } from "../parts.js";
import { showFailure, load, report } from "../states.js";

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

export const title = () => "Health";

export function open({ signal }) {
  const aside = h("span", { role: "status" });
  const list = h("div", { class: "services" });
  const indexes = h("div", null);
  const look = () => ask(list, aside, signal);
  look();
  const timer = setInterval(() => document.hidden || look(), EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  bind([{ keys: "r", what: "refresh", run: look }], signal);
  load(indexes, signal, () => readIndexStates(signal), table);
  return [head("Health", aside), h("div", { class: "scroll" }, list, h("h3", null, "Indexes of search"), indexes)];
}

async function ask(list, aside, signal) {
  try {
    const { services: all } = await services(signal);
    fill(list, all.map(card));
    fill(aside, `updated at ${new Date().toLocaleTimeString()}`);
  } catch (error) {
    if (signal.aborted) return;
    report(error);
    fill(
      list,
      showFailure(error, () => ask(list, aside, signal)),
    );
  }
}

function card({ name, state: status, detail }) {
  return h(
    "article",
    { class: "card service" },
    h("div", { class: "card-head" }, h("h2", null, name), state(word(status, ""))),
    h("p", { class: "muted" }, ABOUT[name] ?? ""),
    detail ? h("p", { class: "bad text" }, detail) : null,
  );
}

const MOST = 50;

async function readIndexStates(signal) {
  const { datasets: all } = await datasets(signal);
  const shown = all.slice(0, MOST);
  return Promise.all(shown.map(async (dataset) => ({ dataset, status: await index(dataset.name, signal) })));
}

/** Compares the revisions of index and playbook; the first search of a dataset creates its index. */
function compareRevisions({ revision }, { revision: at, last_event_at: lastEvent }) {
  if (!lastEvent && !Number(at)) return "not searched yet";
  return Number(revision) > Number(at) ? "behind" : "live";
}

function table(rows) {
  if (!rows.length) return h("p", { class: "muted" }, "There is no playbook yet, so there is nothing to index.");
  const names = ["Dataset", "Bullets", "Revision", "Index at", "Feed", "Last event", "Embedding model"];
  const lines = rows.map(({ dataset, status }) => {
    const feed = status.feed_error ? h("span", { class: "bad text" }, status.feed_error) : state(compareRevisions(dataset, status));
    const cells = [count(status.bullets), dataset.revision, status.revision];
    return h(
      "tr",
      null,
      h("td", null, dataset.name),
      cells.map((value) => h("td", { class: "number" }, value)),
      h("td", null, feed),
      h("td", null, when(status.last_event_at)),
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
