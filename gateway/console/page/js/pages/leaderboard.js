/** Teams that worked on one prompt in rounds: their ranking, every round, and what they submitted. */

import { fetchAll } from "../api.js";
import { renderComparison } from "../comparison.js";
import { fillElement, h } from "../dom.js";
import { listEntries, readRanking, runRounds } from "../endpoints.js";
import { formatPlural, formatScore } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderBar, renderChip, renderHead, renderTime } from "../parts.js";
import { openRoute, formatLink } from "../router.js";
import { renderEmptyState, renderFailure, loadPart, reportError } from "../states.js";
import { t, translateWord } from "../texts.js";

const KEY = "hansei.rounds";
const MAX_RECENT = 12;
const PAGE = 100;
const NUMBERS = new Set([t("leaderboard.rounds"), t("leaderboard.estimated_mean"), t("leaderboard.standard_error")]);
const ORDERS = {
  RANKING_ORDER_MAX_SCORE: t("leaderboard.highest_score"),
  RANKING_ORDER_SHRUNKEN: t("leaderboard.estimated_mean"),
};

export const formatTitle = () => t("common.leaderboard");

export function openPage({ params: { id }, query, signal }) {
  const view = new Leaderboard(id, query, signal);
  return [renderHead(t("common.leaderboard"), view.aside), view.renderChooser(), view.show()];
}

const listRecent = () => {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "[]").filter((other) => typeof other === "string");
  } catch {
    return [];
  }
};

function storeRecent(id) {
  localStorage.setItem(KEY, JSON.stringify([id, ...listRecent().filter((other) => other !== id)].slice(0, MAX_RECENT)));
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
      list: "recent-rounds",
      autocomplete: "off",
    });
    const suggestions = h(
      "datalist",
      { id: "recent-rounds" },
      listRecent().map((recentId) => h("option", { value: recentId })),
    );
    const form = h(
      "form",
      { class: "toolbar" },
      this.input,
      suggestions,
      h("button", null, t("leaderboard.open")),
      this.id ? this.renderOrder() : null,
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
      { "aria-label": t("common.order"), onchange: () => openRoute(["leaderboard", this.id], { order: choice.value }) },
      Object.entries(ORDERS).map(([name, text]) =>
        h("option", { value: name, selected: name === this.query.order }, text),
      ),
    );
    return choice;
  }

  show() {
    if (!this.id) return fillElement(this.body, this.renderEmpty());
    loadPart(
      this.body,
      this.signal,
      () => this.read(),
      () => this.draw(),
    );
    return this.body;
  }

  async read() {
    const answer = await readRanking(this.id, { order: this.query.order }, this.signal);
    this.rows = answer.rows;
    const ask = (token) => listEntries(this.id, { page_size: PAGE, page_token: token }, this.signal);
    this.rounds = await fetchAll(ask, "entries");
  }

  draw() {
    if (!this.rows.length)
      return renderEmptyState(
        t("leaderboard.unknown_execution_of_rounds"),
        t("leaderboard.nothing_was_submitted_under_this"),
      );
    storeRecent(this.id);
    this.aside.textContent = `${formatPlural(this.rows.length, "team")}, ${formatPlural(this.rounds.length, "round")}`;
    return [this.renderTable(), renderComparison(this.rounds), this.rows.map((row) => this.renderTeam(row))];
  }

  renderTable() {
    const estimated = this.rows.some((row) => row.shrunken_score !== undefined);
    const names = [
      "#",
      t("leaderboard.team"),
      t("leaderboard.highest_score"),
      t("leaderboard.rounds"),
      ...(estimated ? [t("leaderboard.estimated_mean"), t("leaderboard.standard_error")] : []),
      t("leaderboard.score_by_round"),
    ];
    const rows = this.rows.map((row) => this.renderRank(row, estimated));
    return h(
      "div",
      { class: "wide", role: "region", "aria-label": t("leaderboard.ranking"), tabindex: "0" },
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
        h("tbody", null, rows),
      ),
    );
  }

  renderRank(row, estimated) {
    const number = (text) => h("td", { class: "number" }, text);
    const means = estimated ? [number(formatScore(row.shrunken_score)), number(formatScore(row.standard_error))] : [];
    return h(
      "tr",
      null,
      h("td", null, row.rank),
      h("td", null, h("b", null, row.team_name), " ", h("span", { class: "mono muted" }, row.team_id)),
      h("td", null, renderBar(row.max_score / 100, "", formatScore(row.max_score))),
      number(row.total_rounds),
      means,
      h("td", null, drawColumns(this.filterRounds(row))),
    );
  }

  filterRounds({ team_id: id }) {
    return this.rounds.filter(({ key }) => key.team_id === id);
  }

  renderTeam(row) {
    const rounds = this.filterRounds(row);
    const best = rounds.find(({ final_submission: final }) => final);
    const exitReason = best?.exit_reason ? renderChip(best.exit_reason.replaceAll("_", " ")) : null;
    return h("section", { class: "team" }, h("h2", null, row.team_name, " ", exitReason), rounds.map(renderRound));
  }

  renderEmpty() {
    const recentIds = listRecent();
    const list = recentIds.length
      ? [
          h("h2", null, t("leaderboard.recently_opened")),
          h(
            "ul",
            { class: "plain" },
            recentIds.map((id) => h("li", null, h("a", { class: "mono", href: formatLink(["leaderboard", id]) }, id))),
          ),
        ]
      : null;
    return [this.renderRoundsForm(), list];
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
      reportError(error);
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
