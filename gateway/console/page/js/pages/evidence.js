/** The effects of the playbook and of each bullet, with intervals, the decisions, and the state of the trials. */

import { fetchAll } from "../api.js";
import { renderDatasetChoice, renderDatasetTabs, lastDataset } from "../datasets.js";
import { askPerson } from "../dialog.js";
import { fillElement, h } from "../dom.js";
import {
  describeCurve,
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
import { formatCount, formatPlural, formatEnum } from "../format.js";
import { renderHead, renderState, renderTime } from "../parts.js";
import { formatLink } from "../router.js";
import { runChange, loadPart, renderEmptyState } from "../states.js";

const PAGE = 1000;
const MOST = 200;
const NUMBERS = ["With it", "Success", "Without", "Success", "Difference", "Evidence"];

export const formatTitle = ({ dataset }) => `Evidence ${dataset}`;

export function openPage({ params: { dataset }, signal }) {
  lastDataset.name = dataset;
  const view = new Evidence(dataset, signal);
  view.load();
  return [
    renderHead(
      dataset,
      [view.count, renderDatasetChoice("evidence", dataset, signal)],
      renderDatasetTabs(dataset, "Evidence"),
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
      const text =
        "A trial withholds bullets from some sessions at random and compares how sessions end with them and without " +
        "them. Agents ask with Recall and report their outcomes.";
      return renderEmptyState("No trials yet", text, this.renderStartButton());
    }
    return [
      h("p", { class: "lead" }, worth.conclusion),
      h("p", { class: "muted" }, describeTrials(status)),
      status.checks.filter(({ failed }) => failed).map((check) => h("p", { class: "bad text" }, describeCheck(check))),
      h("div", { class: "actions" }, status.running ? this.renderStopButton() : this.renderStartButton()),
      drawLift(development),
      h("h2", null, "Effects"),
      measured.length
        ? this.renderTable(worth.lift, measured, texts)
        : h("p", { class: "muted" }, "No bullet was served yet."),
      h("h2", null, "Decisions"),
      decided.length ? this.renderTimeline(decided, texts) : h("p", { class: "muted" }, "None yet."),
    ];
  }

  renderTable(worth, measured, texts) {
    const columns = ["Bullet", ...NUMBERS.slice(0, 5), "95 % interval", "Evidence", "State"];
    const whole = worth ? [this.renderRow("The whole playbook", worth, null)] : [];
    const rows = measured.map(({ bullet_id: id, effect, state: present }) =>
      this.renderRow(this.renderLessonLink(id, texts), effect, renderState(formatEnum(present, "BULLET_STATE_"))),
    );
    const names = columns.map((name) => h("th", { scope: "col", class: NUMBERS.includes(name) ? "number" : "" }, name));
    return h(
      "div",
      { class: "wide", role: "region", "aria-label": "Effects", tabindex: "0" },
      h("table", { class: "table" }, h("thead", null, h("tr", null, names)), h("tbody", null, whole, rows)),
    );
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
      texts.get(id) ?? `${id} (removed)`,
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
          renderState(formatEnum(decision.before, "BULLET_STATE_")),
          "→",
          renderState(formatEnum(decision.after, "BULLET_STATE_")),
          h("span", { class: "muted" }, renderTime(decision.time)),
        ),
        h("p", null, this.renderLessonLink(decision.bullet_id, texts)),
        h(
          "p",
          { class: "muted" },
          `${formatPlural(decision.effect.served.sessions, "session")} with it, ${formatCount(decision.effect.withheld.sessions)} without; ` +
            `difference ${formatPoints(decision.effect.difference)} points` +
            (Number(decision.revision) ? `; removed in revision ${decision.revision}` : "") +
            (decision.undone ? "; undone" : ""),
        ),
        newest.get(decision.bullet_id) === decision &&
          decision.after !== "BULLET_STATE_TRIAL" &&
          this.renderUndoButton(decision),
      ),
    );
  }

  renderUndoButton(decision) {
    return h("button", { type: "button", onclick: () => this.undo(decision) }, "Undo…");
  }

  async undo({ number, revision }) {
    const answer = await askPerson({
      title: `Undo decision ${number}?`,
      text: Number(revision)
        ? "The bullet is added to the playbook again, and measured from the start."
        : "The bullet goes back on trial, and is measured from the start.",
      confirm: "Undo",
    });
    if (answer && (await runChange(() => undoDecision(this.dataset, number), "The bullet is on trial again.")))
      await this.load();
  }

  renderStartButton() {
    return h("button", { type: "button", class: "primary", onclick: () => this.start() }, "Start trials…");
  }

  renderStopButton() {
    return h("button", { type: "button", onclick: () => this.stop() }, "Stop trials…");
  }

  async start() {
    const answer = await askPerson({
      title: `Start trials of ${this.dataset}?`,
      text: "A bullet on trial is withheld from a quarter of the sessions, and the whole playbook from another quarter.",
      confirm: "Start",
    });
    if (answer && (await runChange(() => startTrials(this.dataset), "Trials are running."))) await this.load();
  }

  async stop() {
    const answer = await askPerson({
      title: `Stop trials of ${this.dataset}?`,
      text: "Every session gets all bullets again. What was measured and decided stays.",
      confirm: "Stop",
    });
    if (answer && (await runChange(() => stopTrials(this.dataset), "Trials have stopped."))) await this.load();
  }
}

/** What the whole playbook is worth, session by session. */
function drawLift(history) {
  const label = describeCurve("Success with the playbook less success without it", history);
  return label
    ? [h("h2", null, "Worth of the playbook"), h("p", { class: "muted" }, label), drawCurve(label, history)]
    : null;
}

function describeTrials({ running, sessions, sessions_without_outcome: missing }) {
  const trialState = running ? "Trials are running." : "Trials have stopped; no further session is measured.";
  const missed = Number(missing)
    ? ` ${formatCount(missing)} of ${formatPlural(sessions, "session")} reported no outcome.`
    : "";
  return trialState + missed;
}

const describeCheck = ({ name, served, withheld }) =>
  `Nothing is decided: the ${name} are split ${formatCount(served)} to ${formatCount(withheld)}, which does not fit the policy.`;
