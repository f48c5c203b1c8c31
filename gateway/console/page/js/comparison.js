/** Two submissions side by side: the scores of both, and their texts with the differences marked. */

import { drawDiff } from "./diff.js";
import { fillElement, h } from "./dom.js";
import { formatScore } from "./format.js";
import { renderWideTable } from "./parts.js";
import { t } from "./texts.js";

const describeRound = ({ key, team_name: team, score }, hasExecution) =>
  t("comparison.round", { team, round_number: key.round_number, score: formatScore(score) }) +
  (hasExecution ? ` · ${key.execution_id}` : "");

/** Returns two choices of rounds and what differs between them; nothing if there is only one round. */
export function renderComparison(rounds, hasExecution) {
  if (rounds.length < 2) return null;
  const body = h("div", null);
  const finals = rounds.filter(({ final_submission: isFinal }) => isFinal);
  const choices = finals.length > 1 ? finals : rounds;
  const first = choices[0];
  // Of two executions, a submission of each.
  const second = choices.find(({ key }) => key.execution_id !== first.key.execution_id) ?? choices[1];
  const show = () => fillElement(body, renderPair(rounds[left.value], rounds[right.value], hasExecution));
  const choose = (label, present) =>
    h(
      "select",
      { "aria-label": label, onchange: show },
      rounds.map((round, i) => h("option", { value: i, selected: round === present }, describeRound(round, hasExecution))),
    );
  const left = choose(t("comparison.first_submission"), first);
  const right = choose(t("comparison.second_submission"), second);
  return h(
    "details",
    { class: "comparison", ontoggle: show },
    h("summary", null, t("comparison.compare_two_submissions")),
    h("div", { class: "toolbar" }, left, right),
    body,
  );
}

function renderPair(left, right, hasExecution) {
  return [
    renderScores(left, right),
    h("div", { class: "pair" }, renderSubmission(left, hasExecution), renderSubmission(right, hasExecution)),
    h("h3", null, t("comparison.differences")),
    left.submission_content === right.submission_content
      ? h("p", { class: "muted" }, t("comparison.both_texts_are_the_same"))
      : drawDiff(left.submission_content, right.submission_content),
  ];
}

const renderSubmission = (round, hasExecution) =>
  h(
    "article",
    { class: "card" },
    h("h3", null, describeRound(round, hasExecution)),
    h("p", { class: "text" }, round.submission_content),
  );

function renderScores(left, right) {
  const metrics = (round) =>
    new Map((round.score_details?.metrics ?? []).map(({ metric_name: name, score }) => [name, score]));
  const [ours, theirs] = [metrics(left), metrics(right)];
  const names = [...new Set([...ours.keys(), ...theirs.keys()])];
  const write = (value) => h("td", { class: "number" }, value === undefined ? "–" : formatScore(value));
  const rows = [
    [t("comparison.score"), left.score, right.score],
    ...names.map((name) => [name, ours.get(name), theirs.get(name)]),
  ];
  return renderWideTable(
    t("comparison.scores_of_both"),
    [],
    rows.map(([name, a, b]) => h("tr", null, h("th", { scope: "row" }, name), write(a), write(b))),
  );
}
