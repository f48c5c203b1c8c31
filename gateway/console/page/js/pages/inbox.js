/** The inbox: open questions of all executions, changes for review, and trajectories that could not be learned. */

import { h } from "../dom.js";
import { plural } from "../format.js";
import { countItems, readInbox, showBadge } from "../inbox.js";
import { bind } from "../keys.js";
import { head, state, when } from "../parts.js";
import { link } from "../router.js";
import { load, showEmpty, showFailure } from "../states.js";

export const title = () => "Inbox";

export function open({ signal }) {
  const aside = h("span", { role: "status" });
  const body = h("div", { class: "narrow inbox" });
  const read = () =>
    load(
      body,
      signal,
      () => readInbox(signal),
      (found) => {
        showBadge(found);
        aside.textContent = plural(countItems(found), "open item");
        return draw(found, read);
      },
    );
  read();
  bind([{ keys: "u", what: "read the inbox again", run: read }], signal);
  return [head("Inbox", aside), body];
}

function draw(found, retry) {
  const failures = found.errors.map((error) => showFailure(error, retry));
  if (!countItems(found) && !failures.length)
    return showEmpty(
      "Nothing needs you",
      "Questions of executions, changes for review and trajectories that could not be learned appear here.",
    );
  return [
    failures,
    section("Questions", found.questions.map(question)),
    section("Changes for review", found.reviews.map(review)),
    section("Dead letters", found.jobs.map(deadLetters)),
  ];
}

function section(name, rows) {
  if (!rows.length) return null;
  return h("section", { "aria-label": name }, h("h2", null, name), h("ul", { class: "runs plain" }, rows));
}

const row = (href, text, ...facts) => h("li", null, h("a", { class: "line", href }, text), facts);

const question = ({ execution_id: id, original_query: query, update_time: updated }) =>
  row(link(["executions", id]), query, state("paused"), h("span", { class: "muted when" }, when(updated)));

const review = ({ name, pending_changes: waiting, updated_at: updated }) =>
  row(
    link(["review", name]),
    name,
    h("span", null, plural(waiting, "change")),
    h("span", { class: "muted when" }, when(updated)),
  );

const deadLetters = ({ job_id: id, dataset, dead, created_at: created }) =>
  row(
    link(["learn", dataset], { job: id }),
    dataset,
    h("span", { class: "bad" }, plural(dead, "dead letter")),
    h("span", { class: "muted when" }, when(created)),
  );
