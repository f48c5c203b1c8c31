/** Pending changes: the effect of each, the changes of its target since, and the decision. */

import { Refusal, fetchAll } from "../api.js";
import { renderChanges, renderTargetChange } from "../changes.js";
import { renderDatasetChoice, renderDatasetTabs, lastDataset } from "../datasets.js";
import { askInDialog } from "../dialog.js";
import { drawDiff } from "../diff.js";
import { fillElement, h } from "../dom.js";
import { listBulletRevisions, decideChanges, diffRevisions, listPendingChanges } from "../endpoints.js";
import { formatPlural, formatEnum, readEnum } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderDelta as deltaChip, renderFacts, renderHead, renderKey, renderState, renderTime } from "../parts.js";
import { formatLink } from "../router.js";
import { runChange, renderEmptyState, loadPart } from "../states.js";
import { renderSourceLinks } from "../steps.js";
import { VirtualList } from "../virtual.js";
import { t } from "../texts.js";

const PAGE = 1000;
const RISK = { DELTA_TYPE_DELETE: 2, DELTA_TYPE_UPDATE: 1, DELTA_TYPE_ADD: 0 };
const SHOWN = {
  waiting: [t("common.waiting"), ["PENDING_STATE_WAITING"]],
  decided: [
    t("review.decided"),
    ["PENDING_STATE_APPROVED", "PENDING_STATE_REJECTED", "PENDING_STATE_EXPIRED", "PENDING_STATE_STALE"],
  ],
};

export const formatTitle = ({ dataset }) => t("review.review", { dataset });

export function openPage({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const queue = new Queue(dataset, query.show === "decided" ? "decided" : "waiting", signal);
  queue.load();
  return [
    renderHead(
      dataset,
      [queue.count, renderDatasetChoice("review", dataset, signal)],
      renderDatasetTabs(dataset, t("common.review")),
    ),
    queue.renderToolbar(),
    queue.body,
  ];
}

class Queue {
  constructor(dataset, showing, signal) {
    Object.assign(this, { dataset, showing, signal, all: [], picked: new Set() });
    this.count = h("span", { role: "status" });
    this.body = h("div", { class: "split alone" });
    this.side = h("section", { class: "detail", "aria-label": t("review.change") });
    this.bindKeys();
  }

  load() {
    return loadPart(
      this.body,
      this.signal,
      () => this.read(),
      () => this.draw(),
    );
  }

  /** Reads the oldest first, and edits of bullets before new lessons, because edits can do more harm. */
  async read() {
    const states = SHOWN[this.showing][1];
    const ask = (token) =>
      listPendingChanges(this.dataset, { states, page_size: PAGE, page_token: token }, this.signal);
    const all = await fetchAll(ask, "changes");
    this.all = all.sort((a, b) => RISK[b.delta.type] - RISK[a.delta.type]);
  }

  renderToolbar() {
    const views = Object.entries(SHOWN).map(([name, [text]]) =>
      h(
        "a",
        {
          href: formatLink(["review", this.dataset], { show: name }),
          "aria-current": name === this.showing ? "page" : null,
        },
        text,
      ),
    );
    this.approveAll = h(
      "button",
      { type: "button", class: "primary", onclick: () => this.approve() },
      t("review.approve"),
      renderKey("a"),
    );
    this.rejectAll = h(
      "button",
      { type: "button", onclick: () => this.reject() },
      t("review.reject_2_2"),
      renderKey("x"),
    );
    const decisions =
      this.showing === "waiting" ? h("span", { class: "end decisions" }, this.approveAll, this.rejectAll) : null;
    return h(
      "div",
      { class: "toolbar" },
      h("nav", { class: "tabs", "aria-label": t("common.changes") }, views),
      decisions,
    );
  }

  draw() {
    this.showSelection();
    if (!this.all.length) return this.renderEmpty();
    const onOpen = (proposal) => this.showProposal(proposal);
    this.list = new VirtualList({
      label: t("common.changes"),
      row: (proposal) => this.renderRow(proposal),
      onSelect: onOpen,
      onMark: () => this.pick(),
    });
    this.list.show(this.all, ({ id }) => id);
    if (matchMedia("(min-width: 761px)").matches) requestAnimationFrame(() => this.list.select(0));
    return h("div", null, this.list.element);
  }

  renderEmpty() {
    this.list = null;
    if (this.showing === "decided")
      return renderEmptyState(t("review.no_decisions_yet"), t("review.approved_and_rejected_changes_appear"));
    return renderEmptyState(t("review.no_pending_changes"), t("review.changes_appear_here_when_the"));
  }

  renderRow(proposal) {
    const picked = this.picked.has(proposal.id);
    return [
      h(
        "span",
        { class: `pick ${picked ? "picked" : ""}`, "data-mark": true, title: picked ? t("review.picked") : t("review.pick_this_change") },
        picked ? "✓" : "",
      ),
      deltaChip(proposal.delta.type),
      h(
        "span",
        { class: "line" },
        proposal.delta.content || proposal.current_bullet?.content || proposal.delta.bullet_id,
      ),
      this.showing === "decided"
        ? renderState(readEnum(proposal.state, "PENDING_STATE_"))
        : h("span", { class: "muted line wide-only waits" }, proposal.review_reason),
      h("span", { class: "muted when" }, renderTime(proposal.created_at)),
    ];
  }

  showSelection() {
    const many = this.picked.size
      ? t("review.of_picked", { size: this.picked.size, length: this.all.length })
      : formatPlural(this.all.length, "change");
    this.count.textContent = many;
    for (const button of [this.approveAll, this.rejectAll]) button.disabled = !this.all.length;
  }

  showProposal(proposal) {
    this.body.classList.remove("alone");
    if (!this.side.isConnected) this.body.append(this.side);
    fillElement(this.side, this.renderPanel(proposal));
    this.side.scrollTop = 0;
  }

  renderPanel(proposal) {
    const since = h("div", null);
    loadPart(
      since,
      this.signal,
      () => findChanges(this.dataset, proposal, this.signal),
      (found) => renderTarget(this.dataset, proposal, found),
    );
    return [
      h(
        "div",
        { class: "detail-head" },
        deltaChip(proposal.delta.type),
        proposal.delta.bullet_id ? h("span", { class: "mono" }, proposal.delta.bullet_id) : null,
        h("button", { type: "button", class: "quiet end", onclick: () => this.close() }, t("common.close")),
      ),
      renderProposal(proposal),
      renderFacts([
        [t("review.reason_for_review"), proposal.review_reason],
        [t("common.reasoning"), proposal.delta.reasoning && h("span", { class: "text" }, proposal.delta.reasoning)],
        [t("common.section"), proposal.delta.section || proposal.current_bullet?.section],
        [t("common.by"), proposal.author],
        [t("common.learned_from"), renderSources(this.dataset, proposal)],
        [
          t("review.proposed"),
          h(
            "span",
            null,
            renderTime(proposal.created_at),
            t("review.against_revision", { base_revision: proposal.base_revision }),
          ),
        ],
        [t("review.expires"), renderTime(proposal.expires_at)],
        [
          t("review.decided"),
          proposal.decided_by &&
            h(
              "span",
              { class: "text" },
              t("review.by", {
                state: formatEnum(proposal.state, "PENDING_STATE_"),
                decided_by: proposal.decided_by,
                decision_reason: proposal.decision_reason ? `: ${proposal.decision_reason}` : "",
              }),
            ),
        ],
      ]),
      h("h2", null, t("common.changes_since_then")),
      since,
    ];
  }

  close() {
    this.body.classList.add("alone");
    this.side.remove();
    this.list?.element.focus();
  }

  pick() {
    const proposal = this.list?.items[this.list.selected];
    if (!proposal || this.showing !== "waiting") return;
    if (!this.picked.delete(proposal.id)) this.picked.add(proposal.id);
    this.list.refresh();
    this.showSelection();
  }

  pickAll() {
    if (this.showing !== "waiting" || !this.list) return;
    this.picked = new Set(this.picked.size === this.all.length ? [] : this.all.map(({ id }) => id));
    this.list.refresh();
    this.showSelection();
  }

  /** Returns the ids of the picked changes, else of the selected one. */
  get targets() {
    const proposal = this.list?.items[this.list.selected];
    return this.picked.size ? [...this.picked] : proposal ? [proposal.id] : [];
  }

  async approve() {
    const ids = this.targets;
    if (!ids.length || this.isApproving) return;
    this.isApproving = true;
    const done = await runChange(() => this.decide("DECISION_APPROVE", ids, ""), describeOutcome);
    this.isApproving = false;
    if (done) this.drop(ids);
  }

  async reject() {
    const ids = this.targets;
    if (!ids.length) return;
    const fields = [{ name: "reason", label: t("common.why"), kind: "long", required: true }];
    const done = await askInDialog({
      title: t("review.reject", { length: formatPlural(ids.length, "change") }),
      text: t("review.the_reason_is_stored_with"),
      fields,
      confirm: t("review.reject_2"),
      danger: true,
      act: ({ reason }) => this.decide("DECISION_REJECT", ids, reason),
      done: describeOutcome,
    });
    if (done) this.drop(ids);
  }

  /** Decides on changes; reads the list again if somebody has decided on one of them since. */
  async decide(decision, ids, reason) {
    try {
      return await changeInBatches(ids, (part) => decideChanges(this.dataset, decision, part, reason));
    } catch (error) {
      if (error.reason !== "PENDING_CHANGE_DECIDED") throw error;
      this.picked.clear();
      this.load();
      throw new Refusal(t("review.somebody_has_decided"));
    }
  }

  /** Removes decided changes from the list. */
  drop(ids) {
    const at = this.list.selected;
    const gone = new Set(ids);
    this.picked.clear();
    this.all = this.all.filter(({ id }) => !gone.has(id));
    fillElement(this.body, this.draw());
    if (this.list) requestAnimationFrame(() => this.list.select(Math.min(at, this.all.length - 1)));
  }

  bindKeys() {
    bindKeys(
      [
        { keys: "j", what: t("review.next_change"), run: () => this.list?.move(1) },
        { keys: "k", what: t("review.previous_change"), run: () => this.list?.move(-1) },
        { keys: "s", what: t("review.pick_the_change_for_several"), run: () => this.pick() },
        { keys: "S", what: t("review.pick_all_or_none"), run: () => this.pickAll() },
        { keys: "a", what: t("review.approve_2"), run: () => this.showing === "waiting" && this.approve() },
        { keys: "x", what: t("review.reject_with_a_reason"), run: () => this.showing === "waiting" && this.reject() },
        { keys: "Escape", what: t("review.close_the_change"), run: () => this.side.isConnected && this.close() },
      ],
      this.signal,
    );
  }
}

/** Calls `act`, a request, with at most 1,000 ids at a time, and returns all changes. */
async function changeInBatches(ids, act) {
  const changed = [];
  for (let i = 0; i < ids.length; i += PAGE) changed.push(...(await act(ids.slice(i, i + PAGE))).changes);
  return changed;
}

function describeOutcome(list) {
  const states = Object.groupBy(list, (proposal) => formatEnum(proposal.state, "PENDING_STATE_"));
  return Object.entries(states)
    .map(([name, all]) => `${all.length} ${name}`)
    .join(", ");
}

/** The steps on which the change rests; the whole trajectory if no step is named. */
function renderSources(dataset, { delta: { sources }, source_trajectory: whole }) {
  const named = sources.some(({ trajectory_id: id }) => id === whole);
  const all = whole && !named ? [...sources, { trajectory_id: whole, steps: [] }] : sources;
  return all.length ? renderSourceLinks(dataset, all) : null;
}

function renderProposal({ delta, current_bullet: current }) {
  if (delta.type === "DELTA_TYPE_ADD")
    return [h("p", { class: "text lead" }, delta.content), delta.target ? renderTargetChange({}, delta) : null];
  if (!current)
    return [
      h("p", { class: "text lead" }, delta.content),
      h("p", { class: "bad" }, t("review.its_bullet_does_not_exist")),
    ];
  if (delta.type === "DELTA_TYPE_DELETE") return h("p", { class: "diff text lead" }, h("del", null, current.content));
  // An edit without a text or a target keeps that of the bullet.
  const edited = { content: delta.content || current.content, target: delta.target ?? current.target };
  return [
    edited.content === current.content
      ? h("p", { class: "text lead" }, current.content)
      : drawDiff(current.content, edited.content),
    renderTargetChange(current, edited),
  ];
}

/** Returns the changes since the proposal: of the edited bullet, or of the playbook for a new bullet. */
async function findChanges(dataset, { delta, base_revision: base }, signal) {
  if (delta.bullet_id) {
    const revisions = await listBulletRevisions(dataset, delta.bullet_id, signal);
    return revisions.filter(({ revision }) => Number(revision) > Number(base)).flatMap((revision) => revision.changes);
  }
  return diffRevisions(dataset, base, undefined, signal);
}

function renderTarget(dataset, { delta, base_revision: base }, found) {
  if (!found.length)
    return h(
      "p",
      { class: "muted" },
      delta.bullet_id ? t("review.the_bullet_has_not_changed") : t("review.the_playbook_has_not_changed"),
    );
  const all = h(
    "a",
    { href: formatLink(["playbooks", dataset, "history"], { from: base }) },
    t("review.everything_since_revision", { base }),
  );
  return [renderChanges(dataset, found), h("p", null, t("review.see"), all, ".")];
}
