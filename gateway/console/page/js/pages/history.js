/** The revisions of a playbook: the changes of each, the difference between two, and the restoration of one. */

import { renderChanges } from "../changes.js";
import { renderDatasetTabs, lastDataset } from "../datasets.js";
import { askInDialog } from "../dialog.js";
import { fillElement, h } from "../dom.js";
import { diffRevisions, listRevisions, restoreRevision } from "../endpoints.js";
import { formatPlural, formatEnum } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderChip, renderFacts, renderHead, renderTime } from "../parts.js";
import { openRoute, formatLink, noteQuery } from "../router.js";
import { runChange, renderEmptyState, loadPart } from "../states.js";
import { renderTrajectoryLink } from "../steps.js";
import { VirtualList } from "../virtual.js";
import { t } from "../texts.js";

const PAGE = 100;

export const formatTitle = ({ dataset }) => t("history.history_of", { dataset });

export function openPage({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const view = new History(dataset, query, signal);
  loadPart(
    view.body,
    signal,
    () => view.read(),
    () => view.draw(),
  );
  return [renderHead(dataset, view.aside, renderDatasetTabs(dataset, t("common.history"))), view.body];
}

/** Returns the revisions of an address; what is no number is ignored. */
const filterRevisions = (query) => Object.fromEntries(Object.entries(query).filter(([, value]) => /^\d+$/.test(value)));

class History {
  constructor(dataset, query, signal) {
    Object.assign(this, { dataset, query: filterRevisions(query), signal, revisions: [], next: "", picked: [] });
    this.aside = h("span");
    this.body = h("div", { class: "split alone" });
    this.side = h("section", { class: "detail", "aria-label": t("common.revision") });
  }

  async read() {
    const answer = await listRevisions(this.dataset, { page_size: PAGE, page_token: this.next }, this.signal);
    this.revisions.push(...answer.revisions);
    this.next = answer.next_page_token;
  }

  draw() {
    if (!this.revisions.length)
      return renderEmptyState(t("history.no_revisions"), t("history.the_dataset_has_no_revision"));
    this.aside.textContent = formatPlural(this.revisions[0].revision, "revision");
    this.list = new VirtualList({
      label: t("history.revisions"),
      row: (revision) => renderRow(revision, this.picked.includes(revision.revision)),
      onSelect: (revision) => this.showRevision(revision),
      onMark: ({ revision }) => this.pick(revision),
    });
    this.list.show(this.revisions, ({ revision }) => revision);
    this.bindKeys();
    requestAnimationFrame(() => this.start());
    return h("div", null, this.renderToolbar(), this.list.element, this.renderOlderButton());
  }

  renderToolbar() {
    const newest = this.revisions[0].revision;
    const from = h("input", {
      type: "number",
      min: "0",
      max: newest,
      required: true,
      value: this.query.from ?? "",
      "aria-label": t("history.from_revision"),
    });
    const to = h("input", {
      type: "number",
      min: "1",
      max: newest,
      value: this.query.to ?? "",
      placeholder: newest,
      "aria-label": t("history.to_revision"),
    });
    const form = h(
      "form",
      { class: "toolbar" },
      h("label", null, t("history.compare"), from),
      h("label", null, t("history.with"), to),
      h("button", null, t("history.compare")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.compare(from.value, to.value || newest);
    });
    return form;
  }

  renderOlderButton() {
    if (!this.next) return null;
    const button = h("button", { type: "button" }, t("history.older_revisions"));
    button.addEventListener("click", () =>
      runChange(async () => {
        await this.read();
        this.list.show(this.revisions, ({ revision }) => revision);
        if (!this.next) button.parentElement.remove();
      }),
    );
    return h("div", { class: "toolbar" }, button);
  }

  start() {
    const { from, to, revision } = this.query;
    if (from !== undefined) return this.compare(from, to ?? this.revisions[0].revision);
    const at = this.revisions.findIndex((entry) => entry.revision === revision);
    if (at >= 0) this.list.select(at);
    else if (Number(revision))
      this.compare(revision - 1, revision); // one of the older revisions, not listed yet
    else if (matchMedia("(min-width: 761px)").matches) this.list.select(0);
  }

  /** Picks a revision or drops it; the second one that is picked is compared with the first. */
  pick(revision) {
    const others = this.picked.filter((other) => other !== revision);
    this.picked = others.length < this.picked.length ? others : [...this.picked.slice(-1), revision];
    this.list.refresh();
    const [from, to] = this.picked.toSorted((a, b) => a - b);
    if (to !== undefined) this.compare(from, to);
  }

  show(...children) {
    this.body.classList.remove("alone");
    if (!this.side.isConnected) this.body.append(this.side);
    fillElement(this.side, children);
    this.side.scrollTop = 0;
  }

  showRevision(revision) {
    this.chosen = revision;
    noteQuery({ revision: revision.revision, from: "", to: "" });
    const { author, reason, source_trajectory: source, model, summary } = revision;
    const details = renderFacts([
      [t("common.by"), author],
      [t("common.why"), reason && h("span", { class: "text" }, reason)],
      [t("common.learned_from"), source && renderTrajectoryLink(this.dataset, source)],
      [t("history.model"), model],
      [t("common.edits"), summary],
      [t("common.when"), renderTime(revision.committed_at)],
    ]);
    this.show(
      this.renderHead(
        t("history.revision_2", { revision: revision.revision }),
        renderChip(formatEnum(revision.kind, "REVISION_KIND_")),
      ),
      details,
      this.renderActions(revision),
      h("h3", null, t("common.changes")),
      renderChanges(this.dataset, revision.changes),
      renderRefused(revision),
    );
  }

  renderHead(text, aside) {
    return h(
      "div",
      { class: "detail-head" },
      h("h2", null, text),
      aside,
      h("button", { type: "button", class: "quiet end", onclick: () => this.close() }, t("common.close")),
    );
  }

  renderActions({ revision }) {
    const newest = revision === this.revisions[0].revision;
    return h(
      "div",
      { class: "actions" },
      h(
        "a",
        { class: "button", href: formatLink(["playbooks", this.dataset], { at: revision }) },
        t("history.bullets_as_of_here"),
      ),
      newest
        ? null
        : h(
            "button",
            { type: "button", onclick: () => this.compare(revision, this.revisions[0].revision) },
            t("common.changes_since_then"),
          ),
      newest
        ? null
        : h("button", { type: "button", class: "danger", onclick: () => this.restore(revision) }, t("history.restore")),
    );
  }

  compare(from, to) {
    noteQuery({ from, to, revision: "" });
    const found = h("div", null);
    this.show(this.renderHead(t("history.revision", { from, to })), found);
    loadPart(
      found,
      this.signal,
      () => diffRevisions(this.dataset, from, to, this.signal),
      (found) => renderChanges(this.dataset, found),
    );
  }

  async restore(revision) {
    const done = await askInDialog({
      title: t("history.restore_revision", { revision }),
      text: t("history.its_bullets_become_current_again"),
      fields: [{ name: "reason", label: t("common.why"), kind: "text" }],
      confirm: t("common.restore"),
      danger: true,
      act: ({ reason }) => restoreRevision(this.dataset, revision, reason),
      done: ({ revision: made }) => t("history.revision_is_current_again_as", { revision, made }),
    });
    if (done) openRoute(["playbooks", this.dataset, "history"], { revision: done.revision });
  }

  close() {
    noteQuery({ revision: "", from: "", to: "" });
    this.body.classList.add("alone");
    this.side.remove();
    this.list.element.focus();
  }

  bindKeys() {
    bindKeys(
      [
        { keys: "j", what: t("history.next_revision"), run: () => this.list.move(1) },
        { keys: "k", what: t("history.previous_revision"), run: () => this.list.move(-1) },
        {
          keys: "s",
          what: t("history.pick_the_revision_two_are"),
          run: () => this.chosen && this.pick(this.chosen.revision),
        },
        {
          keys: "R",
          what: t("history.restore_the_revision"),
          run: () => this.chosen && this.restore(this.chosen.revision),
        },
        { keys: "Escape", what: t("history.close_the_revision"), run: () => this.side.isConnected && this.close() },
      ],
      this.signal,
    );
  }
}

const renderRow = ({ revision, kind, author, reason, summary, committed_at: time, bullets_after: after }, isPicked) => [
  h(
    "span",
    { class: `pick ${isPicked ? "picked" : ""}`, "data-mark": true, title: t("history.pick_two_revisions_to_compare") },
    isPicked ? "✓" : "",
  ),
  h("span", { class: "mono muted row-revision" }, revision),
  renderChip(formatEnum(kind, "REVISION_KIND_")),
  h("span", { class: "line" }, reason || summary),
  h("span", { class: "muted wide-only" }, author),
  h("span", { class: "muted wide-only" }, formatPlural(after, "bullet")),
  h("span", { class: "muted when" }, renderTime(time)),
];

function renderRefused({ operations }) {
  const lost = operations.filter(({ applied }) => !applied);
  if (!lost.length) return null;
  return [
    h("h3", null, t("history.changes_that_were_not_applied")),
    h(
      "ul",
      { class: "plain" },
      lost.map(({ delta, skipped_reason: why }) =>
        h("li", { class: "text" }, why, ": ", h("span", { class: "muted" }, delta?.content)),
      ),
    ),
  ];
}
