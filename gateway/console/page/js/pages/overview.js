/** The home page: whether agents succeed, whether the playbook helps, and what waits for a person. */

import { fetchAll } from "../api.js";
import { lastDataset } from "../datasets.js";
import { h } from "../dom.js";
import {
  listBullets,
  listDatasets,
  listEffects,
  listRevisions,
  readDataset,
  readLift,
  readOverview,
} from "../endpoints.js";
import { renderFirstRun } from "../firstrun.js";
import { bindKeys } from "../keys.js";
import {
  renderAgents,
  renderErrors,
  renderGrowth,
  renderOutcomes,
  renderTokens,
  renderTopBullets,
  renderTotals,
} from "../overview.js";
import { renderHead } from "../parts.js";
import { formatLink, openRoute } from "../router.js";
import { renderSnippets } from "../snippets.js";
import { loadPart } from "../states.js";
import { renderOpenItems } from "./inbox.js";
import { t } from "../texts.js";

const PAGE = 1000;
/** Bullets whose votes are compared. */
const MOST_BULLETS = 5000;
const MOST_REVISIONS = 200;
const MOST_EFFECTS = 200;

export const formatTitle = () => t("common.overview");

export async function openPage({ query, signal }) {
  const datasets = await listDatasets(signal);
  if (!datasets.length)
    return [renderHead(t("overview.welcome_to_hansei")), h("div", { class: "scroll" }, renderFirstRun(signal))];
  const names = datasets.map(({ name }) => name);
  const dataset = [query.dataset, lastDataset.name].find((name) => names.includes(name)) ?? names[0];
  const body = h("div", { class: "overview" });
  const read = () =>
    loadPart(
      body,
      signal,
      () => readAll(dataset, signal),
      (found) => renderParts(dataset, found),
    );
  read();
  bindKeys([{ keys: "u", what: t("overview.read_the_overview_again"), run: read }], signal);
  const snippets = h(
    "details",
    { class: "more connect" },
    h("summary", null, t("common.connect_an_agent")),
    renderSnippets(dataset, signal),
  );
  return [
    renderHead(t("common.overview"), renderChoice(names, dataset)),
    h("div", { class: "scroll" }, renderOpenItems(signal), body, snippets),
  ];
}

function renderChoice(names, present) {
  const options = names.toSorted().map((name) => h("option", { value: name, selected: name === present }, name));
  const choice = h(
    "select",
    {
      "aria-label": t("common.dataset"),
      onchange: () => ((lastDataset.name = choice.value), openRoute(["overview"], { dataset: choice.value })),
    },
    options,
  );
  return choice;
}

/** Reads the parts of the overview side by side; the part of a service that is away is null. */
async function readAll(dataset, signal) {
  const bulletPages = (token) => listBullets(dataset, { page_size: PAGE, page_token: token }, signal);
  const effectPages = (token) => listEffects(dataset, { page_size: PAGE, page_token: token }, signal);
  const [summary, overview, lift, bullets, history, effects] = await Promise.all([
    readDataset(dataset, {}, signal),
    tryRead(readOverview(dataset, signal), signal),
    tryRead(readLift(dataset, signal), signal),
    fetchAll(bulletPages, "bullets", MOST_BULLETS),
    listRevisions(dataset, { page_size: MOST_REVISIONS }, signal),
    tryRead(fetchAll(effectPages, "effects", MOST_EFFECTS), signal),
  ]);
  return { summary, overview, lift, bullets, revisions: history.revisions, effects };
}

async function tryRead(reading, signal) {
  try {
    return await reading;
  } catch (error) {
    if (signal.aborted || error.status === 401) throw error;
    return null;
  }
}

function renderParts(dataset, { summary, overview, lift, bullets, revisions, effects }) {
  const history = h("a", { href: formatLink(["playbooks", dataset, "history"]) }, t("overview.all_revisions"));
  return [
    renderTotals(overview, lift, summary),
    h(
      "div",
      { class: "panels" },
      h("div", null, renderOutcomes(overview, lift), renderTopBullets(dataset, bullets, effects ?? [])),
      h("div", null, renderGrowth(revisions, history), renderErrors(overview)),
    ),
    renderTokens(overview),
    renderAgents(dataset, overview),
  ];
}
