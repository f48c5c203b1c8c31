/** One bullet: its text, its sources and its history. */

import { fetchAll } from "../api.js";
import { drawDiff } from "../diff.js";
import { h } from "../dom.js";
import { editBullet, deleteBullet, restoreBullet, voteOnBullet } from "../edits.js";
import {
  describeCurve,
  drawCurve,
  drawInterval,
  isCompared,
  formatPoints,
  formatRate,
  formatEvidence,
} from "../effects.js";
import { listBulletRevisions, readEffectHistory, listEffects } from "../endpoints.js";
import { formatCount, formatPlural, formatEnum } from "../format.js";
import { drawIcon } from "../icons.js";
import { renderChip, renderConfidence, renderFacts, renderState, renderVotes, renderTime } from "../parts.js";
import { formatLink } from "../router.js";
import { renderEmptyState, loadPart } from "../states.js";
import { renderSourceLinks } from "../steps.js";

const PAGE = 1000;
const MOST = 10_000;

/** The panel of a bullet; `close` leaves it. `current`: it is the newest text, which can be edited. */
export function renderBullet(dataset, bullet, signal, close, current) {
  const past = h("div", null);
  loadPart(
    past,
    signal,
    () => listBulletRevisions(dataset, bullet.id, signal),
    (revisions) => renderHistory(dataset, revisions, current ? bullet : null),
  );
  const measured = h("div", null);
  loadPart(
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
      bullet.state === "BULLET_STATE_RETIRED" ? renderState("retired") : renderState("active"),
      h(
        "button",
        { type: "button", class: "quiet end", "aria-label": "Close", title: "Close (Esc)", onclick: close },
        drawIcon("close"),
      ),
    ),
    h("p", { class: "text lead" }, bullet.content),
    current
      ? h(
          "div",
          { class: "actions" },
          h("button", { type: "button", onclick: () => editBullet(dataset, bullet) }, "Edit…"),
          h(
            "button",
            { type: "button", onclick: () => voteOnBullet(dataset, bullet, "VOTE_TAG_HELPFUL") },
            "It helped…",
          ),
          h(
            "button",
            { type: "button", onclick: () => voteOnBullet(dataset, bullet, "VOTE_TAG_HARMFUL") },
            "It harmed…",
          ),
          bullet.state === "BULLET_STATE_RETIRED"
            ? h("button", { type: "button", onclick: () => restoreBullet(dataset, bullet, true) }, "Add again…")
            : null,
          h("button", { type: "button", class: "danger", onclick: () => deleteBullet(dataset, bullet) }, "Remove…"),
        )
      : null,
    renderBulletFacts(dataset, bullet),
    h("h3", null, "Evidence"),
    measured,
    h("h3", null, "History"),
    past,
  ];
}

function renderBulletFacts(dataset, bullet) {
  const keywords = bullet.keywords.length
    ? h(
        "span",
        { class: "chips" },
        bullet.keywords.map((keyword) => renderChip(keyword)),
      )
    : null;
  const indexed =
    bullet.searchable_text === bullet.content ? null : h("span", { class: "text" }, bullet.searchable_text);
  return renderFacts([
    ["Section", bullet.section],
    ["Votes", renderVotes(bullet)],
    ["Confidence", renderConfidence(bullet.confidence_score)],
    ["Learned from", renderSources(dataset, bullet)],
    ["Added", renderMoment(dataset, bullet.created_revision, bullet.created_at)],
    ["Changed", renderMoment(dataset, bullet.updated_revision, bullet.updated_at)],
    ["Keywords", keywords],
    ["Indexed as", indexed],
  ]);
}

/** The trial of the newest text, and how its effect developed; null if it is not measured. */
async function readEvidence(dataset, id, signal) {
  const trials = await fetchAll(
    (token) => listEffects(dataset, { page_size: PAGE, page_token: token }, signal),
    "effects",
    MOST,
  );
  const own = trials.filter(({ bullet_id: other }) => other === id);
  if (!own.length) return null;
  const newest = own.reduce((latest, trial) =>
    Date.parse(trial.state_started_at) > Date.parse(latest.state_started_at) ? trial : latest,
  );
  const development = await readEffectHistory(dataset, { bullet_id: id }, signal);
  return { ...newest, development: development.points };
}

function renderEvidence(dataset, trial) {
  const page = h("a", { href: formatLink(["evidence", dataset]) }, "All effects");
  if (!trial) return h("p", { class: "muted" }, "Not measured: no session of a trial was served it. ", page);
  const { effect, state: present, development } = trial;
  const { served, withheld } = effect;
  const label = describeCurve("Success with the bullet less success without it", development);
  const both = isCompared(effect);
  return [
    renderFacts([
      ["State", renderState(formatEnum(present, "BULLET_STATE_"))],
      ["With it", `${formatPlural(served.sessions, "session")}, success ${formatRate(served)}`],
      ["Without it", `${formatPlural(withheld.sessions, "session")}, success ${formatRate(withheld)}`],
      ["Difference", both ? `${formatPoints(effect.difference)} points` : null],
      ["95 % interval", both ? drawInterval(effect) : null],
      [
        "Evidence",
        both
          ? `${formatEvidence(effect.evidence)} of ${formatCount(Math.round(trial.required_evidence))} required`
          : null,
      ],
    ]),
    label ? drawCurve(label, development) : null,
    h("p", null, page),
  ];
}

function renderSources(dataset, { sources: all, source_trajectory: first }) {
  const list = all.length ? all : first ? [{ trajectory_id: first, steps: [] }] : [];
  return list.length ? renderSourceLinks(dataset, list) : h("span", { class: "muted" }, "unknown");
}

function renderMoment(dataset, revision, time) {
  if (!Number(revision)) return null;
  return h(
    "span",
    null,
    h("a", { href: formatLink(["playbooks", dataset, "history"], { revision }) }, `revision ${revision}`),
    " ",
    h("span", { class: "muted" }, renderTime(time)),
  );
}

/** The revisions that changed it, newest first. */
function renderHistory(dataset, revisions, present) {
  if (!revisions.length) return renderEmptyState("No history", "No revision in the log changed this bullet.");
  return h(
    "ol",
    { class: "story" },
    revisions.toReversed().map((revision) => renderRevision(dataset, revision, present)),
  );
}

function renderRevision(dataset, revision, present) {
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
        { href: formatLink(["playbooks", dataset, "history"], { revision: revision.revision }) },
        `revision ${revision.revision}`,
      ),
      renderChip(formatEnum(revision.kind, "REVISION_KIND_")),
      h("span", { class: "muted" }, revision.author, " · ", renderTime(revision.committed_at)),
    ),
    changes.map((change) => [renderChange(change), renderRestoreButton(dataset, change, present)]),
    reasons.map((reason) => h("p", { class: "muted text" }, reason)),
    cast.length ? h("p", { class: "muted" }, renderVotesCast(cast)) : null,
  );
}

/** Offers the text before a change, if it is not the present one. */
function renderRestoreButton(dataset, { before, after }, present) {
  if (!present || !before || !after || before.content === after.content || before.content === present.content)
    return null;
  const earlier = { ...present, content: before.content };
  return h(
    "button",
    { type: "button", class: "quiet", onclick: () => restoreBullet(dataset, earlier, false) },
    "Restore the text before this change…",
  );
}

function renderChange({ before, after }) {
  if (!before) return h("p", { class: "text" }, renderChip("added", "delta-add"), " ", after.content);
  if (!after) return h("p", { class: "text" }, renderChip("removed", "delta-delete"), " ", before.content);
  if (before.content !== after.content) return drawDiff(before.content, after.content);
  if (before.state !== after.state) return h("p", null, "Now ", formatEnum(after.state, "BULLET_STATE_"), ".");
  if (after.sources.length > before.sources.length)
    return h("p", null, `Confirmed by another trajectory: ${formatCount(after.sources.length)} in total.`);
  return null;
}

function renderVotesCast(cast) {
  const tags = Object.groupBy(
    cast.filter(({ applied }) => applied),
    ({ vote }) => formatEnum(vote.tag, "VOTE_TAG_"),
  );
  const counts = Object.entries(tags).map(([tag, all]) => formatPlural(all.length, `${tag} vote`));
  const reason = cast.map(({ vote }) => vote.reason).find(Boolean);
  return [counts.join(", ") || "A vote that did not count", reason ? `: ${reason}` : ""].join("");
}
