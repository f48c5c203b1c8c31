/** The inbox: open questions of all executions, changes for review, and trajectories that could not be learned. */

import { fillElement, h } from "../dom.js";
import { formatPlural } from "../format.js";
import { countItems, readInbox, showBadge, watchInbox } from "../inbox.js";
import { bindKeys } from "../keys.js";
import { renderHead, renderState, renderTime } from "../parts.js";
import { formatLink } from "../router.js";
import { loadPart, renderEmptyState, renderFailure } from "../states.js";
import { t } from "../texts.js";

export const formatTitle = () => t("common.inbox");

export function openPage({ signal }) {
  const aside = h("span", { role: "status" });
  const body = h("div", { class: "scroll inbox" });
  const read = () => {
    aside.textContent = "";
    return loadPart(
      body,
      signal,
      () => readInbox(signal),
      (found) => {
        showBadge(found);
        const items = formatPlural(countItems(found), "open item");
        aside.textContent = found.errors.length ? t("inbox.at_least", { items }) : items;
        return renderInbox(found, read);
      },
    );
  };
  read();
  bindKeys([{ keys: "u", what: t("inbox.read_the_inbox_again"), run: read }], signal);
  return [renderHead(t("common.inbox"), aside), body];
}

/** Returns what waits for a person in one line, for the overview; empty while it is read and when nothing waits. */
export function renderOpenItems(signal) {
  const line = h("div", { class: "open-items", role: "status" });
  const show = (found) =>
    fillElement(
      line,
      countItems(found) ? h("a", { class: "notice", href: formatLink(["inbox"]) }, describeItems(found)) : null,
    );
  watchInbox(show, signal);
  return line;
}

function describeItems({ questions, reviews, jobs }) {
  const changes = reviews.reduce((sum, { pending_changes: waiting }) => sum + waiting, 0);
  const letters = jobs.reduce((sum, { dead }) => sum + Number(dead), 0);
  const parts = [
    questions.length ? formatPlural(questions.length, "question") : "",
    changes ? formatPlural(changes, "change") : "",
    letters ? formatPlural(letters, "dead letter") : "",
  ].filter(Boolean);
  return t("inbox.waiting_for_a_person", { value: parts.join(", ") });
}

function renderInbox(found, retry) {
  const failures = found.errors.map((error) => renderFailure(error, retry));
  if (!countItems(found) && !failures.length)
    return renderEmptyState(t("inbox.nothing_needs_you"), t("inbox.questions_of_executions_changes_for"));
  return [
    failures,
    renderSection(t("inbox.questions"), found.questions.map(renderQuestion)),
    renderSection(t("inbox.changes_for_review"), found.reviews.map(renderReview)),
    renderSection(t("common.dead_letters"), found.jobs.map(renderDeadLetters)),
  ];
}

function renderSection(name, rows) {
  if (!rows.length) return null;
  return h("section", { "aria-label": name }, h("h2", null, name), h("ul", { class: "records plain" }, rows));
}

const renderItem = (href, text, ...facts) => h("li", null, h("a", { class: "line", href }, text), facts);

const renderQuestion = ({ execution_id: id, original_query: query, update_time: updated }) =>
  renderItem(
    formatLink(["executions", id]),
    query,
    renderState("paused"),
    h("span", { class: "muted when" }, renderTime(updated)),
  );

const renderReview = ({ name, pending_changes: waiting, updated_at: updated }) =>
  renderItem(
    formatLink(["review", name]),
    name,
    h("span", null, formatPlural(waiting, "change")),
    h("span", { class: "muted when" }, renderTime(updated)),
  );

const renderDeadLetters = ({ job_id: id, dataset, dead, created_at: created }) =>
  renderItem(
    formatLink(["learn", dataset], { job: id }),
    dataset,
    h("span", { class: "bad" }, formatPlural(dead, "dead letter")),
    h("span", { class: "muted when" }, renderTime(created)),
  );
