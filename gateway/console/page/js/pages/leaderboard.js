/** Teams that worked on one prompt in rounds: their ranking, every round, and what they submitted. */

import { fetchAll } from "../api.js";
import { renderComparison } from "../comparison.js";
import { fillElement, h } from "../dom.js";
import { listEntries, listLeaderboards, readRanking, runRounds } from "../endpoints.js";
import { formatCount, formatPlural, formatScore, formatTime } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderBar, renderChip, renderHead, renderHeader, renderTime, renderWideTable } from "../parts.js";
import { openRoute, formatLink } from "../router.js";
import { renderEmptyState, renderFailure, loadPart, logUnexpectedError } from "../states.js";
import { t, translateWord } from "../texts.js";

const PAGE = 100;
/** Executions that the page lists. */
const MOST = 300;
const ORDERS = {
  RANKING_ORDER_MAX_SCORE: t("leaderboard.highest_score"),
  RANKING_ORDER_SHRUNKEN: t("leaderboard.estimated_mean"),
};

export const formatTitle = () => t("common.leaderboard");

export function openPage({ params: { id }, query, signal }) {
  const view = new Leaderboard(id, query, signal);
  return [renderHead(t("common.leaderboard"), view.aside), view.renderChooser(), view.show()];
}

class Leaderboard {
  constructor(id, query, signal) {
    Object.assign(this, { id, query, signal });
    this.aside = h("span", { role: "status" });
    this.body = h("div", { class: "scroll" });
    bindKeys(
      [
        { keys: "/", what: t("leaderboard.open_an_execution_of_rounds"), run: () => this.input.focus() },
        { keys: "n", what: t("leaderboard.let_teams_compete_2"), run: () => openRoute(["leaderboard"]) },
      ],
      signal,
    );
  }

  renderChooser() {
    this.input = h("input", {
      class: "grow",
      required: true,
      value: this.id ?? "",
      placeholder: t("leaderboard.execution_of_rounds"),
      "aria-label": t("leaderboard.execution_of_rounds"),
      list: "executions-of-rounds",
      autocomplete: "off",
    });
    const suggestions = h("datalist", { id: "executions-of-rounds" });
    this.listExecutions().then(
      (all) =>
        fillElement(
          suggestions,
          all.map(({ execution_id: id }) => h("option", { value: id })),
        ),
      () => {},
    );
    const form = h(
      "form",
      { class: "toolbar" },
      this.input,
      suggestions,
      h("button", null, t("leaderboard.open")),
      this.id ? [this.renderOrder(), this.renderOther()] : null,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      openRoute(["leaderboard", this.input.value.trim()]);
    });
    return form;
  }

  renderOrder() {
    const choice = h(
      "select",
      { "aria-label": t("common.order"), onchange: () => this.reopen({ order: choice.value }) },
      Object.entries(ORDERS).map(([name, text]) =>
        h("option", { value: name, selected: name === this.query.order }, text),
      ),
    );
    return choice;
  }

  /** A choice of a second execution, which is shown with this one. */
  renderOther() {
    const choice = h("select", {
      "aria-label": t("leaderboard.compare_with_an_execution"),
      onchange: () => this.reopen({ with: choice.value }),
    });
    const show = (all) =>
      fillElement(
        choice,
        h("option", { value: "" }, t("leaderboard.compare_with")),
        all
          .filter(({ execution_id: id }) => id !== this.id)
          .map((summary) =>
            h(
              "option",
              { value: summary.execution_id, selected: summary.execution_id === this.query.with },
              describeExecution(summary),
            ),
          ),
      );
    show([]);
    this.listExecutions().then(show, () => {});
    return choice;
  }

  reopen(query) {
    openRoute(["leaderboard", this.id], { ...this.query, ...query });
  }

  /** The executions of rounds, the newest first; asked for once. */
  listExecutions() {
    const ask = (token) => listLeaderboards({ page_size: PAGE, page_token: token }, this.signal);
    this.executions ??= fetchAll(ask, "leaderboards", MOST);
    return this.executions;
  }

  show() {
    if (!this.id) return this.showExecutions();
    loadPart(
      this.body,
      this.signal,
      () => this.read(),
      () => this.draw(),
    );
    return this.body;
  }

  async read() {
    const ids = [this.id, this.query.with].filter(Boolean);
    this.parts = await Promise.all(ids.map((id) => this.readExecution(id)));
  }

  async readExecution(id) {
    const ask = (token) => listEntries(id, { page_size: PAGE, page_token: token }, this.signal);
    const [{ rows }, rounds] = await Promise.all([
      readRanking(id, { order: this.query.order }, this.signal),
      fetchAll(ask, "entries"),
    ]);
    return { id, rows, rounds };
  }

  draw() {
    const [{ rows, rounds }] = this.parts;
    if (!rows.length)
      return renderEmptyState(
        t("leaderboard.unknown_execution_of_rounds"),
        t("leaderboard.nothing_was_submitted_under_this"),
      );
    this.aside.textContent = `${formatPlural(rows.length, "team")}, ${formatPlural(rounds.length, "round")}`;
    const isPair = this.parts.length > 1;
    return [
      this.parts.map((part) => [isPair ? h("h2", { class: "mono" }, part.id) : null, this.renderTable(part)]),
      renderComparison(
        this.parts.flatMap((part) => part.rounds),
        isPair,
      ),
      this.parts.map((part) => part.rows.map((row) => renderTeam(row, part, isPair))),
    ];
  }

  renderTable({ id, rows: ranked, rounds }) {
    const estimated = ranked.some((row) => row.shrunken_score !== undefined);
    const means = estimated ? [t("leaderboard.estimated_mean"), t("leaderboard.standard_error")] : [];
    const headings = [
      renderHeader("#"),
      renderHeader(t("leaderboard.team")),
      renderHeader(t("leaderboard.highest_score")),
      renderHeader(t("leaderboard.rounds"), "number"),
      ...means.map((name) => renderHeader(name, "number")),
      renderHeader(t("leaderboard.score_by_round")),
    ];
    const rows = ranked.map((row) => this.renderRank(row, rounds, estimated));
    return renderWideTable(t("leaderboard.ranking_of", { id }), headings, rows);
  }

  renderRank(row, rounds, estimated) {
    const number = (text) => h("td", { class: "number" }, text);
    const means = estimated ? [number(formatScore(row.shrunken_score)), number(formatScore(row.standard_error))] : [];
    return h(
      "tr",
      null,
      h("td", null, row.rank),
      h(
        "td",
        { class: "team-name" },
        h("b", null, row.team_name),
        " ",
        h("span", { class: "mono muted" }, row.team_id),
      ),
      h("td", null, renderBar(row.max_score / 100, "", formatScore(row.max_score))),
      number(row.total_rounds),
      means,
      h("td", null, drawColumns(filterRounds(row, rounds))),
    );
  }

  showExecutions() {
    loadPart(
      this.body,
      this.signal,
      () => this.listExecutions(),
      (all) => [all.length ? renderExecutions(all) : null, this.renderRoundsForm()],
    );
    return this.body;
  }

  renderRoundsForm() {
    const prompt = h("textarea", { rows: 3, required: true });
    const teams = h("textarea", {
      rows: 4,
      required: true,
      value: t("leaderboard.short_answer_in_three_sentences"),
    });
    const run = h("button", { class: "primary" }, t("common.start"));
    const progress = h("div", { "aria-live": "polite" });
    const form = h(
      "form",
      { class: "narrow" },
      h("h2", null, t("leaderboard.let_teams_compete")),
      h("label", { class: "field" }, t("leaderboard.prompt"), prompt),
      h("label", { class: "field" }, t("leaderboard.teams_one_a_line_as"), teams),
      h("div", { class: "actions" }, run),
      progress,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      run.disabled = true;
      this.runRounds(prompt.value, readTeams(teams.value), progress).finally(() => (run.disabled = false));
    });
    return form;
  }

  async runRounds(prompt, teams, progress) {
    fillElement(progress);
    try {
      for await (const { data } of runRounds({ user_prompt: prompt, teams }, this.signal)) {
        if (data.result) return openRoute(["leaderboard", data.execution_id]);
        const { team_name: name, round: done } = data.round_finished;
        progress.prepend(
          h(
            "p",
            null,
            t("leaderboard.round_scored", {
              name,
              round_number: done.round_number,
              evaluation_score: formatScore(done.evaluation_score),
            }),
          ),
        );
      }
    } catch (error) {
      if (this.signal.aborted) return;
      logUnexpectedError(error);
      fillElement(progress, renderFailure(error));
    }
  }
}

function readTeams(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  return lines.map((line, i) => {
    const [, name, instruction] = /^([^:]*):?(.*)$/.exec(line);
    return { team_id: `team-${i + 1}`, team_name: name.trim(), instruction: instruction.trim() };
  });
}

const describeExecution = ({ execution_id: id, best_team_name: team, max_score: score }) =>
  t("leaderboard.execution_best", { id, team, score: formatScore(score) });

/** The executions of rounds, each with its best team. */
function renderExecutions(all) {
  const headings = [
    renderHeader(t("common.when")),
    renderHeader(t("leaderboard.best_team")),
    renderHeader(t("leaderboard.highest_score")),
    renderHeader(t("common.teams"), "number"),
    renderHeader(t("leaderboard.rounds"), "number"),
    renderHeader(t("leaderboard.submissions"), "number"),
    renderHeader(t("leaderboard.execution")),
  ];
  const rows = all.map((summary) =>
    h(
      "tr",
      null,
      h(
        "td",
        null,
        h(
          "a",
          { class: "team-name", href: formatLink(["leaderboard", summary.execution_id]) },
          formatTime(summary.update_time),
        ),
      ),
      h("td", null, h("b", null, summary.best_team_name)),
      h("td", null, renderBar(summary.max_score / 100, "", formatScore(summary.max_score))),
      [summary.teams, summary.last_round, summary.entries].map((count) =>
        h("td", { class: "number" }, formatCount(count)),
      ),
      h("td", { class: "mono muted" }, summary.execution_id),
    ),
  );
  return renderWideTable(t("leaderboard.executions_of_rounds"), headings, rows);
}

const filterRounds = ({ team_id: id }, rounds) => rounds.filter(({ key }) => key.team_id === id);

function renderTeam(row, { id, rounds: all }, isPair) {
  const rounds = filterRounds(row, all);
  const best = rounds.find(({ final_submission: final }) => final);
  const exitReason = best?.exit_reason ? renderChip(translateWord(best.exit_reason)) : null;
  const execution = isPair ? h("span", { class: "mono muted" }, id) : null;
  return h(
    "section",
    { class: "team" },
    h("h2", null, row.team_name, " ", exitReason, " ", execution),
    rounds.map(renderRound),
  );
}

/** The scores of a team's rounds as small columns. */
function drawColumns(rounds) {
  const summary = rounds.map((entry) => formatScore(entry.score)).join(", ");
  return h(
    "span",
    { class: "columns", role: "img", "aria-label": t("leaderboard.scores_by_round", { summary }), title: summary },
    rounds.map((entry) =>
      h("span", { class: entry.final_submission ? "best" : "", style: { height: `${Math.max(4, entry.score)}%` } }),
    ),
  );
}

function renderRound({
  key,
  score: total,
  score_details: details,
  submission_content: text,
  final_submission: best,
  judgement,
  create_time: time,
}) {
  const metrics = (details?.metrics ?? []).map(({ metric_name: name, score: value, evaluator_comment: comment }) =>
    h(
      "tr",
      null,
      h("td", null, name),
      h("td", null, renderBar(value / 100, "", formatScore(value))),
      h("td", { class: "text muted" }, comment),
    ),
  );
  return h(
    "details",
    { class: "round" },
    h(
      "summary",
      { class: "card-head" },
      h("b", null, t("leaderboard.round", { round_number: key.round_number })),
      renderBar(total / 100, "", formatScore(total)),
      best ? renderChip(translateWord("best"), "state-good") : null,
      h("span", { class: "muted end" }, renderTime(time)),
    ),
    h("p", { class: "text" }, text),
    metrics.length ? h("table", { class: "table" }, h("tbody", null, metrics)) : null,
    judgement?.reasoning
      ? h("p", { class: "muted text" }, t("leaderboard.judge", { reasoning: judgement.reasoning }))
      : null,
  );
}
