/** The effects of the playbook and of each bullet, with intervals, the decisions, and the state of the trials. */

import { fetchAll } from "../api.js";
import { renderDatasetChoice, renderDatasetTabs, lastDataset } from "../datasets.js";
import { askInDialog } from "../dialog.js";
import { fillElement, h } from "../dom.js";
import {
  describeCurve,
  describeVerdict,
  drawCurve,
  drawInterval,
  isCompared,
  formatPoints,
  formatRate,
  formatEvidence,
} from "../effects.js";
import {
  listBullets,
  listDecisions,
  readEffectHistory,
  listEffects,
  readLift,
  startTrials,
  stopTrials,
  readTrials,
  undoDecision,
} from "../endpoints.js";
import { formatCount, formatPlural, readEnum } from "../format.js";
import { renderHead, renderHeader, renderState, renderTime, renderWideTable } from "../parts.js";
import { formatLink } from "../router.js";
import { loadPart, renderEmptyState } from "../states.js";
import { t, translateWord } from "../texts.js";

const PAGE = 1000;
const MOST = 200;
export const formatTitle = ({ dataset }) => t("evidence.evidence", { dataset });

export function openPage({ params: { dataset }, signal }) {
  lastDataset.name = dataset;
  const view = new Evidence(dataset, signal);
  view.load();
  return [
    renderHead(
      dataset,
      [view.count, renderDatasetChoice("evidence", dataset, signal)],
      renderDatasetTabs(dataset, t("common.evidence")),
    ),
    view.body,
  ];
}

class Evidence {
  constructor(dataset, signal) {
    Object.assign(this, { dataset, signal });
    this.count = h("span", { role: "status" });
    this.body = h("div", { class: "scroll" });
  }

  load() {
    return loadPart(
      this.body,
      this.signal,
      () => this.read(),
      (found) => this.draw(found),
    );
  }

  async read() {
    const status = await readTrials(this.dataset, this.signal);
    if (!status.policy) return { status };
    const pages = (token) => listEffects(this.dataset, { page_size: PAGE, page_token: token }, this.signal);
    const [measured, worth, development, decided] = await Promise.all([
      fetchAll(pages, "effects", MOST),
      readLift(this.dataset, this.signal),
      readEffectHistory(this.dataset, {}, this.signal),
      listDecisions(this.dataset, { page_size: MOST }, this.signal),
    ]);
    return {
      status,
      measured: measured.slice(0, MOST),
      worth,
      development: development.points,
      decided: decided.decisions,
      texts: await this.readTexts(measured),
    };
  }

  /** Returns the current lessons by the ids of their bullets. */
  async readTexts(measured) {
    const ids = measured.slice(0, MOST).map(({ bullet_id: id }) => id);
    const found = ids.length ? await listBullets(this.dataset, { ids, page_size: PAGE }, this.signal) : { bullets: [] };
    return new Map(found.bullets.map(({ id, content }) => [id, content]));
  }

  draw({ status, measured, worth, development, decided, texts }) {
    fillElement(this.count, status.policy ? formatPlural(status.sessions, "session") : "");
    if (!status.policy) {
      const text = t("evidence.a_trial_withholds_bullets_from");
      return renderEmptyState(t("evidence.no_trials_yet"), text, this.renderStartButton());
    }
    return [
      h("p", { class: "lead" }, describeVerdict(worth)),
      h("p", { class: "muted" }, describeTrials(status)),
      status.checks.filter(({ failed }) => failed).map((check) => h("p", { class: "bad text" }, describeCheck(check))),
      h("div", { class: "actions" }, status.running ? this.renderStopButton() : this.renderStartButton()),
      drawLift(development),
      h("h2", null, t("evidence.effects")),
      measured.length
        ? this.renderTable(worth.lift, measured, texts)
        : h("p", { class: "muted" }, t("evidence.no_bullet_was_served_yet")),
      h("h2", null, t("common.decisions")),
      decided.length ? this.renderTimeline(decided, texts) : h("p", { class: "muted" }, t("evidence.none_yet")),
    ];
  }

  renderTable(worth, measured, texts) {
    const numbers = [
      t("common.with_it"),
      t("common.success"),
      t("evidence.without"),
      t("common.success"),
      t("common.difference"),
    ];
    const headings = [
      renderHeader(t("common.bullet")),
      ...numbers.map((name) => renderHeader(name, "number")),
      renderHeader(t("common.95_interval")),
      renderHeader(t("common.evidence"), "number"),
      renderHeader(t("common.state")),
    ];
    const whole = worth ? [this.renderRow(t("evidence.the_whole_playbook"), worth, null)] : [];
    const rows = measured.map(({ bullet_id: id, effect, state: present }) =>
      this.renderRow(this.renderLessonLink(id, texts), effect, renderState(readEnum(present, "BULLET_STATE_"))),
    );
    return renderWideTable(t("evidence.effects"), headings, [...whole, ...rows]);
  }

  renderRow(name, effect, present) {
    const { served, withheld } = effect;
    const both = isCompared(effect);
    const numbers = [
      formatCount(served.sessions),
      formatRate(served),
      formatCount(withheld.sessions),
      formatRate(withheld),
      both ? formatPoints(effect.difference) : "–",
    ];
    return h(
      "tr",
      null,
      h("td", { class: "effect-name" }, name),
      numbers.map((value) => h("td", { class: "number" }, value)),
      h("td", null, both ? drawInterval(effect) : "–"),
      h("td", { class: "number" }, both ? formatEvidence(effect.evidence) : "–"),
      h("td", null, present),
    );
  }

  renderLessonLink(id, texts) {
    return h(
      "a",
      { href: formatLink(["playbooks", this.dataset], { bullet: id }) },
      texts.get(id) ?? t("evidence.removed", { id }),
    );
  }

  renderTimeline(decided, texts) {
    const newest = new Map(decided.toReversed().map((decision) => [decision.bullet_id, decision]));
    return decided.map((decision) =>
      h(
        "article",
        { class: "card decision" },
        h(
          "div",
          { class: "card-head" },
          renderState(readEnum(decision.before, "BULLET_STATE_")),
          "→",
          renderState(readEnum(decision.after, "BULLET_STATE_")),
          h("span", { class: "muted" }, renderTime(decision.time)),
        ),
        h("p", null, this.renderLessonLink(decision.bullet_id, texts)),
        h(
          "p",
          { class: "muted" },
          t("evidence.with_it_without", {
            sessions: formatPlural(decision.effect.served.sessions, "session"),
            sessions2: formatCount(decision.effect.withheld.sessions),
          }) +
            t("evidence.difference_points", { difference: formatPoints(decision.effect.difference) }) +
            (Number(decision.revision) ? t("evidence.removed_in_revision", { revision: decision.revision }) : "") +
            (decision.undone ? t("evidence.undone") : ""),
        ),
        newest.get(decision.bullet_id) === decision &&
          decision.after !== "BULLET_STATE_TRIAL" &&
          this.renderUndoButton(decision),
      ),
    );
  }

  renderUndoButton(decision) {
    return h("button", { type: "button", onclick: () => this.undo(decision) }, t("evidence.undo_2"));
  }

  async undo({ number, revision }) {
    const done = await askInDialog({
      title: t("evidence.undo_decision", { number }),
      text: Number(revision) ? t("evidence.the_bullet_is_added_to") : t("evidence.the_bullet_goes_back_on"),
      confirm: t("evidence.undo"),
      act: () => undoDecision(this.dataset, number),
      done: t("evidence.the_bullet_is_on_trial"),
    });
    if (done) await this.load();
  }

  renderStartButton() {
    return h("button", { type: "button", class: "primary", onclick: () => this.start() }, t("evidence.start_trials"));
  }

  renderStopButton() {
    return h("button", { type: "button", onclick: () => this.stop() }, t("evidence.stop_trials"));
  }

  async start() {
    const done = await askInDialog({
      title: t("evidence.start_trials_of", { dataset: this.dataset }),
      text: t("evidence.a_bullet_on_trial_is"),
      confirm: t("common.start"),
      act: () => startTrials(this.dataset),
      done: t("evidence.trials_are_running"),
    });
    if (done) await this.load();
  }

  async stop() {
    const done = await askInDialog({
      title: t("evidence.stop_trials_of", { dataset: this.dataset }),
      text: t("evidence.every_session_gets_all_bullets"),
      confirm: t("evidence.stop"),
      act: () => stopTrials(this.dataset),
      done: t("evidence.trials_have_stopped"),
    });
    if (done) await this.load();
  }
}

/** What the whole playbook is worth, session by session. */
function drawLift(history) {
  const label = describeCurve(t("evidence.success_with_the_playbook_less"), history);
  return label
    ? [h("h2", null, t("evidence.worth_of_the_playbook")), h("p", { class: "muted" }, label), drawCurve(label, history)]
    : null;
}

function describeTrials({ running, sessions, sessions_without_outcome: missing }) {
  const trialState = running ? t("evidence.trials_are_running") : t("evidence.trials_have_stopped_no_further");
  const missed = Number(missing)
    ? t("evidence.of_reported_no_outcome", {
        missing: formatCount(missing),
        sessions: formatPlural(sessions, "session"),
      })
    : "";
  return trialState + missed;
}

const describeCheck = ({ name, served, withheld }) =>
  t("evidence.nothing_is_decided_the_are", {
    name: translateWord(name),
    served: formatCount(served),
    withheld: formatCount(withheld),
  });
