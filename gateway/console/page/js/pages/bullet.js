/** One bullet: its text, its sources and its history. */

import { fetchAll } from "../api.js";
import { drawDiff } from "../diff.js";
import { h } from "../dom.js";
import { edit, forget } from "../edits.js";
import { describeCurve, drawCurve, interval, isCompared, points, rate, shortEvidence } from "../effects.js";
import { bulletHistory, effectHistory, effects } from "../endpoints.js";
import { count, plural, word } from "../format.js";
import { icon } from "../icons.js";
import { chip, confidence, facts, state, votes, when } from "../parts.js";
import { link } from "../router.js";
import { showEmpty, load } from "../states.js";
import { renderSourceLinks } from "../steps.js";

const PAGE = 1000;
const MOST = 10_000;

/** The panel of a bullet; `close` leaves it. `current`: it is the newest text, which can be edited. */
export function detail(dataset, bullet, signal, close, current) {
  const past = h("div", null);
  load(
    past,
    signal,
    () => bulletHistory(dataset, bullet.id, signal),
    (revisions) => renderHistory(dataset, revisions),
  );
  const measured = h("div", null);
  load(
    measured,
    signal,
    () => readEvidence(dataset, bullet.id, signal),
    (found) => renderEvidence(dataset, found),
  );
  return [
    h(
      "div",
      { class: "detail-head" },
      h("span", { class: "mono" }, bullet.id),
      bullet.state === "BULLET_STATE_RETIRED" ? state("retired") : state("active"),
      h(
        "button",
        { type: "button", class: "quiet end", "aria-label": "Close", title: "Close (Esc)", onclick: close },
        icon("close"),
      ),
    ),
    h("p", { class: "text lead" }, bullet.content),
    current
      ? h(
          "div",
          { class: "actions" },
          h("button", { type: "button", onclick: () => edit(dataset, bullet) }, "Edit…"),
          h("button", { type: "button", class: "danger", onclick: () => forget(dataset, bullet) }, "Forget…"),
        )
      : null,
    renderFacts(dataset, bullet),
    h("h3", null, "Evidence"),
    measured,
    h("h3", null, "History"),
    past,
  ];
}

function renderFacts(dataset, bullet) {
  const keywords = bullet.keywords.length
    ? h(
        "span",
        { class: "chips" },
        bullet.keywords.map((keyword) => chip(keyword)),
      )
    : null;
  const indexed =
    bullet.searchable_text === bullet.content ? null : h("span", { class: "text" }, bullet.searchable_text);
  return facts([
    ["Section", bullet.section],
    ["Votes", votes(bullet)],
    ["Confidence", confidence(bullet.confidence_score)],
    ["Learned from", sources(dataset, bullet)],
    ["Added", moment(dataset, bullet.created_revision, bullet.created_at)],
    ["Changed", moment(dataset, bullet.updated_revision, bullet.updated_at)],
    ["Keywords", keywords],
    ["Indexed as", indexed],
  ]);
}

/** The trial of the newest text, and how its effect developed; null if it is not measured. */
async function readEvidence(dataset, id, signal) {
  const trials = await fetchAll((token) => effects(dataset, { page_size: PAGE, page_token: token }, signal), "effects", MOST);
  const own = trials.filter(({ bullet_id: other }) => other === id);
  if (!own.length) return null;
  const newest = own.reduce((latest, trial) => (Date.parse(trial.state_started_at) > Date.parse(latest.state_started_at) ? trial : latest));
  const development = await effectHistory(dataset, { bullet_id: id }, signal);
  return { ...newest, development: development.points };
}

function renderEvidence(dataset, trial) {
  const page = h("a", { href: link(["evidence", dataset]) }, "All effects");
  if (!trial) return h("p", { class: "muted" }, "Not measured: no session of a trial was served it. ", page);
  const { effect, state: present, development } = trial;
  const { served, withheld } = effect;
  const label = describeCurve("Success with the bullet less success without it", development);
  const both = isCompared(effect);
  return [
    facts([
      ["State", state(word(present, "BULLET_STATE_"))],
      ["With it", `${plural(served.sessions, "session")}, success ${rate(served)}`],
      ["Without it", `${plural(withheld.sessions, "session")}, success ${rate(withheld)}`],
      ["Difference", both ? `${points(effect.difference)} points` : null],
      ["95 % interval", both ? interval(effect) : null],
      ["Evidence", both ? `${shortEvidence(effect.evidence)} of ${count(Math.round(trial.required_evidence))} required` : null],
    ]),
    label ? drawCurve(label, development) : null,
    h("p", null, page),
  ];
}

function sources(dataset, { sources: all, source_trajectory: first }) {
  const list = all.length ? all : first ? [{ trajectory_id: first, steps: [] }] : [];
  return list.length ? renderSourceLinks(dataset, list) : h("span", { class: "muted" }, "unknown");
}

function moment(dataset, revision, time) {
  if (!Number(revision)) return null;
  return h(
    "span",
    null,
    h("a", { href: link(["playbooks", dataset, "history"], { revision }) }, `revision ${revision}`),
    " ",
    h("span", { class: "muted" }, when(time)),
  );
}

/** The revisions that changed it, newest first. */
function renderHistory(dataset, revisions) {
  if (!revisions.length) return showEmpty("No history", "No revision in the log changed this bullet.");
  return h(
    "ol",
    { class: "story" },
    revisions.toReversed().map((revision) => renderRevision(dataset, revision)),
  );
}

function renderRevision(dataset, revision) {
  const { changes, votes: cast, operations } = revision;
  const reasons = operations.map(({ delta, skipped_reason: skipped }) => skipped || delta?.reasoning).filter(Boolean);
  return h(
    "li",
    null,
    h(
      "div",
      { class: "card-head" },
      h(
        "a",
        { href: link(["playbooks", dataset, "history"], { revision: revision.revision }) },
        `revision ${revision.revision}`,
      ),
      chip(word(revision.kind, "REVISION_KIND_")),
      h("span", { class: "muted" }, revision.author, " · ", when(revision.committed_at)),
    ),
    changes.map(change),
    reasons.map((reason) => h("p", { class: "muted text" }, reason)),
    cast.length ? h("p", { class: "muted" }, renderVotesCast(cast)) : null,
  );
}

function change({ before, after }) {
  if (!before) return h("p", { class: "text" }, chip("added", "delta-add"), " ", after.content);
  if (!after) return h("p", { class: "text" }, chip("removed", "delta-delete"), " ", before.content);
  if (before.content !== after.content) return drawDiff(before.content, after.content);
  if (before.state !== after.state) return h("p", null, "Now ", word(after.state, "BULLET_STATE_"), ".");
  return null;
}

function renderVotesCast(cast) {
  const tags = Object.groupBy(
    cast.filter(({ applied }) => applied),
    ({ vote }) => word(vote.tag, "VOTE_TAG_"),
  );
  const counts = Object.entries(tags).map(([tag, all]) => plural(all.length, `${tag} vote`));
  const reason = cast.map(({ vote }) => vote.reason).find(Boolean);
  return [counts.join(", ") || "A vote that did not count", reason ? `: ${reason}` : ""].join("");
}
