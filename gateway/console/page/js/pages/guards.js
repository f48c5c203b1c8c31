/** The guards of a dataset: their modes, firings and false alarms, and the editor of a target with its backtest. */

import { fetchAll, waitFor } from "../api.js";
import { renderDatasetChoice, renderDatasetTabs, lastDataset } from "../datasets.js";
import { fillElement, h } from "../dom.js";
import { listBullets, listGuardDecisions, listGuards, undoGuardDecision } from "../endpoints.js";
import { formatPlural, readEnum } from "../format.js";
import { GuardEditor } from "../guard_editor.js";
import { drawIcon } from "../icons.js";
import { bindKeys } from "../keys.js";
import { renderChip, renderFacts, renderHead, renderState, renderTime } from "../parts.js";
import { formatLink, noteQuery } from "../router.js";
import { renderEmptyState, loadPart, runChange } from "../states.js";
import { t } from "../texts.js";
import { VirtualList } from "../virtual.js";

const PAGE = 1000;
/** The evidence service follows a playbook with a delay, so a changed guard is read again until it is there. */
const RETRIES = 40;
const RETRY_MS = 250;
const NEW = "new";

export const formatTitle = ({ dataset }) => t("guards.guards_of", { dataset });

export function openPage({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const view = new Guards(dataset, query, signal);
  view.load(query.bullet);
  return [
    renderHead(
      dataset,
      [view.count, renderDatasetChoice("guards", dataset, signal)],
      renderDatasetTabs(dataset, t("common.guards")),
    ),
    view.body,
  ];
}

class Guards {
  constructor(dataset, query, signal) {
    Object.assign(this, { dataset, query, signal, guards: [], decisions: [] });
    /** The editors with changes that are not saved, by the ids of their bullets. */
    this.drafts = new Map();
    this.count = h("span", { role: "status" });
    this.body = h("div", { class: "split guards alone" });
    this.side = h("section", { class: "detail", "aria-label": t("common.guard") });
    bindKeys(
      [
        { keys: "j", what: t("guards.next_guard"), run: () => this.list?.move(1) },
        { keys: "k", what: t("guards.previous_guard"), run: () => this.list?.move(-1) },
        { keys: "n", what: t("guards.write_a_guard"), run: () => this.showNew() },
        { keys: "Escape", what: t("guards.close_the_guard"), run: () => this.close() },
      ],
      signal,
    );
  }

  load(bullet, revision = 0) {
    return loadPart(
      this.body,
      this.signal,
      () => this.read(revision),
      () => this.draw(bullet),
    );
  }

  /** Reads the guards of a revision or a later one. */
  async read(revision) {
    for (let retry = 0; ; retry += 1) {
      const ask = async (token) => {
        const answer = await listGuards(this.dataset, { page_size: PAGE, page_token: token }, this.signal);
        this.revision = Number(answer.revision);
        return answer;
      };
      this.guards = await fetchAll(ask, "guards");
      if (this.revision >= revision || retry === RETRIES) break;
      await waitFor(RETRY_MS, this.signal);
    }
    this.decisions = (await listGuardDecisions(this.dataset, { page_size: PAGE }, this.signal)).decisions;
  }

  draw(bullet) {
    fillElement(this.count, formatPlural(this.guards.length, "guard"));
    this.body.classList.add("alone");
    this.list = new VirtualList({
      label: t("common.guards"),
      row: renderRow,
      onSelect: (guard) => this.show(guard),
    });
    this.list.element.classList.add("lessons");
    this.list.show(this.guards, ({ bullet_id: id }) => id);
    if (bullet) requestAnimationFrame(() => this.open(bullet));
    const add = h("button", { type: "button", onclick: () => this.showNew() }, t("guards.write_a_guard_2"));
    if (!this.guards.length) {
      const empty = renderEmptyState(t("guards.no_guards_yet"), t("guards.a_guard_checks_tool_calls"), add);
      return h("div", null, empty);
    }
    return h("div", null, h("div", { class: "toolbar" }, add), this.list.element);
  }

  /** Opens the guard of a bullet, or the editor for a bullet that has none. */
  async open(bullet) {
    if (bullet === NEW) return this.showNew();
    const index = this.guards.findIndex(({ bullet_id: id }) => id === bullet);
    if (index >= 0) return this.list.select(index);
    const { bullets } = await listBullets(this.dataset, { ids: [bullet], page_size: 1 }, this.signal);
    if (bullets.length && !this.signal.aborted) this.show({ bullet_id: bullet, text: bullets[0].content });
  }

  showNew() {
    this.show({ bullet_id: "", text: "" });
  }

  show(guard) {
    noteQuery({ bullet: guard.bullet_id || NEW });
    this.leaveEditor();
    const draft = this.drafts.get(guard.bullet_id);
    draft?.test();
    this.editor = draft ?? this.createEditor(guard);
    this.body.classList.remove("alone");
    if (!this.side.isConnected) this.body.append(this.side);
    fillElement(this.side, this.renderDetail(guard));
    this.side.scrollTop = 0;
  }

  createEditor(guard) {
    const saved = (bullet, revision) => {
      this.editor = null;
      this.drafts.delete(guard.bullet_id);
      this.load(bullet, Number(revision));
    };
    return new GuardEditor(this.dataset, guard, this.revision, this.signal, saved);
  }

  /** Ends the backtest of the open editor, and keeps what is not saved until its guard is opened again. */
  leaveEditor() {
    this.editor?.stop();
    if (this.editor?.isChanged) this.drafts.set(this.editor.guard.bullet_id, this.editor);
  }

  close() {
    if (!this.side.isConnected) return;
    noteQuery({ bullet: "" });
    this.leaveEditor();
    this.body.classList.add("alone");
    this.side.remove();
    this.list.element.focus();
  }

  renderDetail(guard) {
    const { bullet_id: id, target, text } = guard;
    const title = id
      ? h("a", { class: "mono", href: formatLink(["playbooks", this.dataset], { bullet: id }) }, id)
      : h("b", null, t("guards.a_new_guard"));
    const close = h(
      "button",
      {
        type: "button",
        class: "quiet end",
        "aria-label": t("common.close"),
        title: t("bullet.close_esc"),
        onclick: () => this.close(),
      },
      drawIcon("close"),
    );
    return [
      h("div", { class: "detail-head" }, title, target ? renderMode(target) : null, close),
      id ? h("p", { class: "text lead" }, text) : null,
      target ? renderCounts(guard) : null,
      this.editor.element,
      this.renderDecisions(id),
    ];
  }

  renderDecisions(bullet) {
    const own = this.decisions.filter(({ bullet_id: id }) => bullet && id === bullet);
    if (!own.length) return null;
    return [h("h2", null, t("common.decisions")), own.map((decision, i) => this.renderDecision(decision, i === 0))];
  }

  renderDecision(decision, isNewest) {
    const { before, after, reason, time, undone, number } = decision;
    const undo =
      isNewest && !undone
        ? h("button", { type: "button", onclick: () => this.undo(number) }, t("guards.undo_this_decision"))
        : null;
    return h(
      "article",
      { class: "card decision" },
      h(
        "div",
        { class: "card-head" },
        renderState(readEnum(before, "TARGET_MODE_")),
        "→",
        renderState(readEnum(after, "TARGET_MODE_")),
        undone ? renderChip(t("guards.undone")) : null,
        h("span", { class: "muted" }, renderTime(time)),
      ),
      h("p", { class: "muted text" }, reason),
      undo,
    );
  }

  async undo(number) {
    const done = await runChange(() => undoGuardDecision(this.dataset, number), t("guards.the_mode_is_as_before"));
    if (done) await this.load(this.query.bullet, Number(done.decision.revision));
  }
}

function renderRow({ text, target, firings, evidence }) {
  const alarms = evidence ? formatPlural(evidence.false_alarms, "false alarm") : "";
  return [
    h("span", { class: "line guard-line" }, text, h("span", { class: "mono muted" }, target.expression)),
    renderMode(target),
    h("span", { class: "row-count" }, formatPlural(firings, "firing")),
    h("span", { class: `row-count ${Number(evidence?.false_alarms) ? "bad" : ""}` }, alarms),
  ];
}

const renderMode = ({ mode, pinned }) => [
  renderState(readEnum(mode, "TARGET_MODE_")),
  pinned ? renderChip(t("guards.pinned")) : null,
];

/** What a guard did to calls, and what sessions have shown about it. */
function renderCounts({ target, requested_mode: requested, firings, withheld, evidence }) {
  const isLowered = requested !== target.mode;
  const shown = evidence ?? {};
  return [
    renderFacts([
      [t("guards.firings"), formatPlural(firings, "call")],
      [t("guards.withheld"), Number(withheld) ? formatPlural(withheld, "call") : null],
      [
        t("guards.false_alarms"),
        evidence
          ? t("guards.of_passing", {
              alarms: formatPlural(shown.false_alarms, "false alarm"),
              sessions: formatPlural(shown.passed_sessions, "passing session"),
            })
          : t("guards.no_session_has_reported"),
      ],
      [t("guards.mistakes"), evidence ? formatPlural(shown.mistakes, "session") : null],
      [
        t("guards.with_advice"),
        Number(shown.advised)
          ? t("guards.repeated_the_mistake", {
              mistakes: formatPlural(shown.advised_mistakes, "session"),
              sessions: formatPlural(shown.advised, "session"),
            })
          : null,
      ],
      [
        t("guards.without_advice"),
        Number(shown.withheld)
          ? t("guards.repeated_the_mistake", {
              mistakes: formatPlural(shown.withheld_mistakes, "session"),
              sessions: formatPlural(shown.withheld, "session"),
            })
          : null,
      ],
    ]),
    isLowered
      ? h(
          "p",
          { class: "warn" },
          t("guards.asked_for_in_effect"),
          " ",
          renderState(readEnum(requested, "TARGET_MODE_")),
          ". ",
          t("guards.store_a_backtest_or_pin"),
        )
      : null,
  ];
}
