/** One bullet: its text, its sources and its history. */

import { fetchAll, waitFor } from "../api.js";
import { renderDifferences } from "../changes.js";
import { h } from "../dom.js";
import { PERSON, editBullet, deleteBullet, restoreBullet, voteOnBullet } from "../edits.js";
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
import { formatCount, formatPlural, formatEnum, readEnum } from "../format.js";
import { drawIcon } from "../icons.js";
import { renderChip, renderConfidence, renderFacts, renderState, renderVotes, renderTime } from "../parts.js";
import { formatLink } from "../router.js";
import { renderEmptyState, loadPart } from "../states.js";
import { renderSourceLinks } from "../steps.js";
import { t, translateWord } from "../texts.js";

const PAGE = 1000;
const MOST = 10_000;
const MOST_VOTERS = 20;
/** The delay before evidence and history of a selected bullet are loaded; a held key selects the next one sooner. */
const STAY_MS = 150;

/**
 * Returns the nodes of the panel of a bullet; `close` closes it. `signal` is aborted when another bullet is selected.
 * If `current` is true, the panel shows the newest text of the bullet, and the reader can edit it.
 */
export function renderBullet(dataset, bullet, signal, close, current) {
  const staying = waitFor(STAY_MS, signal);
  const past = h("div", null);
  loadPart(
    past,
    signal,
    () => staying.then(() => listBulletRevisions(dataset, bullet.id, signal)),
    (revisions) => renderHistory(dataset, revisions, current ? bullet : null),
  );
  const measured = h("div", null);
  loadPart(
    measured,
    signal,
    () => staying.then(() => readEvidence(dataset, bullet.id, signal)),
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
        {
          type: "button",
          class: "quiet end",
          "aria-label": t("common.close"),
          title: t("bullet.close_esc"),
          onclick: close,
        },
        drawIcon("close"),
      ),
    ),
    h("p", { class: "text lead" }, bullet.content),
    current
      ? h(
          "div",
          { class: "actions" },
          h("button", { type: "button", onclick: () => editBullet(dataset, bullet) }, t("bullet.edit")),
          h(
            "a",
            { class: "button", href: formatLink(["guards", dataset], { bullet: bullet.id }) },
            bullet.target?.expression ? t("bullet.open_the_guard") : t("bullet.add_a_guard"),
          ),
          h(
            "button",
            { type: "button", onclick: () => voteOnBullet(dataset, bullet, "VOTE_TAG_HELPFUL") },
            t("bullet.it_helped"),
          ),
          h(
            "button",
            { type: "button", onclick: () => voteOnBullet(dataset, bullet, "VOTE_TAG_HARMFUL") },
            t("bullet.it_harmed"),
          ),
          bullet.state === "BULLET_STATE_RETIRED"
            ? h(
                "button",
                { type: "button", onclick: () => restoreBullet(dataset, bullet, true) },
                t("common.add_again"),
              )
            : null,
          h(
            "button",
            { type: "button", class: "danger", onclick: () => deleteBullet(dataset, bullet) },
            t("bullet.remove"),
          ),
        )
      : null,
    renderBulletFacts(dataset, bullet),
    h("h2", null, t("common.evidence")),
    measured,
    h("h2", null, t("common.history")),
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
    [t("common.section"), bullet.section],
    [t("common.votes"), renderVotes(bullet)],
    [t("common.confidence"), renderConfidence(bullet.confidence_score)],
    [t("common.learned_from"), renderSources(dataset, bullet)],
    [t("bullet.added"), renderMoment(dataset, bullet.created_revision, bullet.created_at)],
    [t("bullet.changed"), renderMoment(dataset, bullet.updated_revision, bullet.updated_at)],
    [t("bullet.keywords"), keywords],
    [t("guards.target"), bullet.target?.expression ? h("code", { class: "mono" }, bullet.target.expression) : null],
    [t("bullet.indexed_as"), indexed],
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
  const page = h("a", { href: formatLink(["evidence", dataset]) }, t("bullet.all_effects"));
  if (!trial) return h("p", { class: "muted" }, t("bullet.not_measured_no_session_of"), page);
  const { effect, state: present, development } = trial;
  const { served, withheld } = effect;
  const label = describeCurve(t("bullet.success_with_the_bullet_less"), development);
  const both = isCompared(effect);
  return [
    renderFacts([
      [t("common.state"), renderState(readEnum(present, "BULLET_STATE_"))],
      [
        t("common.with_it"),
        t("bullet.success", { sessions: formatPlural(served.sessions, "session"), served: formatRate(served) }),
      ],
      [
        t("common.without_it"),
        t("bullet.success_2", { sessions: formatPlural(withheld.sessions, "session"), withheld: formatRate(withheld) }),
      ],
      [t("common.difference"), both ? t("common.points", { difference: formatPoints(effect.difference) }) : null],
      [t("common.95_interval"), both ? drawInterval(effect) : null],
      [
        t("common.evidence"),
        both
          ? t("bullet.of_required", {
              evidence: formatEvidence(effect.evidence),
              required_evidence: formatCount(Math.round(trial.required_evidence)),
            })
          : null,
      ],
    ]),
    label ? drawCurve(label, development) : null,
    h("p", null, page),
  ];
}

function renderSources(dataset, { sources: all, source_trajectory: first }) {
  const list = all.length ? all : first ? [{ trajectory_id: first, steps: [] }] : [];
  return list.length ? renderSourceLinks(dataset, list) : h("span", { class: "muted" }, t("bullet.no_trajectory"));
}

function renderMoment(dataset, revision, time) {
  if (!Number(revision)) return null;
  return h(
    "span",
    null,
    h("a", { href: formatLink(["playbooks", dataset, "history"], { revision }) }, t("common.revision_2", { revision })),
    " ",
    h("span", { class: "muted" }, renderTime(time)),
  );
}

/** The revisions that changed it, newest first. */
function renderHistory(dataset, revisions, present) {
  if (!revisions.length) return renderEmptyState(t("bullet.no_history"), t("bullet.no_revision_in_the_log"));
  return h(
    "ol",
    { class: "story" },
    revisions.toReversed().map((revision) => renderRevision(dataset, revision, present)),
  );
}

/** Shows what a revision did to the bullet; `present` is the bullet as it is now. */
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
        t("common.revision_2", { revision: revision.revision }),
      ),
      renderChip(formatEnum(revision.kind, "REVISION_KIND_")),
      h("span", { class: "muted" }, revision.author, " · ", renderTime(revision.committed_at)),
    ),
    changes.map((change) => [renderChange(change), renderRestoreButton(dataset, change, present)]),
    reasons.map((reason) => h("p", { class: "muted text" }, reason)),
    cast.length ? h("p", { class: "muted" }, renderVotesCast(cast)) : null,
    renderVoters(dataset, cast),
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
    t("bullet.restore_the_text_before_this"),
  );
}

function renderChange({ before, after }) {
  if (!before) return h("p", { class: "text" }, renderChip(translateWord("added"), "delta-add"), " ", after.content);
  if (!after)
    return h("p", { class: "text" }, renderChip(translateWord("removed"), "delta-delete"), " ", before.content);
  return renderDifferences(before, after);
}

/** Links to the trajectories that voted; a vote of a person has none. */
function renderVoters(dataset, cast) {
  const ids = [...new Set(cast.map(({ vote }) => vote.trajectory_id))].filter((id) => id && !id.startsWith(PERSON));
  return ids.length
    ? renderSourceLinks(
        dataset,
        ids.slice(0, MOST_VOTERS).map((id) => ({ trajectory_id: id, steps: [] })),
      )
    : null;
}

function renderVotesCast(cast) {
  const tags = Object.groupBy(
    cast.filter(({ applied }) => applied),
    ({ vote }) => readEnum(vote.tag, "VOTE_TAG_"),
  );
  const counts = Object.entries(tags).map(([tag, all]) => formatPlural(all.length, `${tag} vote`));
  const reason = cast.map(({ vote }) => vote.reason).find(Boolean);
  return [counts.join(", ") || t("bullet.a_vote_that_did_not"), reason ? `: ${reason}` : ""].join("");
}
