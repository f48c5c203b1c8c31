/** The revisions of a playbook: the changes of each, the difference between two, and the restoration of one. */

import { changes } from "../changes.js";
import { renderDatasetTabs, lastDataset } from "../datasets.js";
import { ask } from "../dialog.js";
import { fill, h } from "../dom.js";
import { diff, history, restore } from "../endpoints.js";
import { plural, word } from "../format.js";
import { bind } from "../keys.js";
import { chip, facts, head, when } from "../parts.js";
import { go, link, note } from "../router.js";
import { change, showEmpty, load } from "../states.js";
import { trajectoryLink } from "../steps.js";
import { VirtualList } from "../virtual.js";

const PAGE = 100;

export const title = ({ dataset }) => `History of ${dataset}`;

export function open({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const view = new History(dataset, query, signal);
  load(
    view.body,
    signal,
    () => view.read(),
    () => view.draw(),
  );
  return [head(dataset, view.aside, renderDatasetTabs(dataset, "History")), view.body];
}

class History {
  constructor(dataset, query, signal) {
    Object.assign(this, { dataset, query, signal, revisions: [], next: "" });
    this.aside = h("span");
    this.body = h("div", { class: "split alone" });
    this.side = h("section", { class: "detail", "aria-label": "Revision" });
  }

  async read() {
    const answer = await history(this.dataset, { page_size: PAGE, page_token: this.next }, this.signal);
    this.revisions.push(...answer.revisions);
    this.next = answer.next_page_token;
  }

  draw() {
    if (!this.revisions.length) return showEmpty("No revisions", "The dataset has no revision yet.");
    this.aside.textContent = plural(this.revisions[0].revision, "revision");
    this.list = new VirtualList({ label: "Revisions", row, onSelect: (revision) => this.showRevision(revision) });
    this.list.show(this.revisions, ({ revision }) => revision);
    this.bind();
    requestAnimationFrame(() => this.start());
    return h("div", null, this.toolbar(), this.list.element, this.loadOlder());
  }

  toolbar() {
    const newest = this.revisions[0].revision;
    const from = h("input", {
      type: "number",
      min: "0",
      max: newest,
      required: true,
      value: this.query.from ?? "",
      "aria-label": "From revision",
    });
    const to = h("input", {
      type: "number",
      min: "1",
      max: newest,
      value: this.query.to ?? "",
      placeholder: newest,
      "aria-label": "To revision",
    });
    const form = h(
      "form",
      { class: "toolbar" },
      h("label", null, "Compare", from),
      h("label", null, "with", to),
      h("button", null, "Compare"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.compare(from.value, to.value || newest);
    });
    return form;
  }

  loadOlder() {
    if (!this.next) return null;
    const button = h("button", { type: "button" }, "Older revisions");
    button.addEventListener("click", () =>
      change(async () => {
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
    else if (revision)
      this.compare(revision - 1, revision); // one of the older revisions, not listed yet
    else if (matchMedia("(min-width: 761px)").matches) this.list.select(0);
  }

  show(...children) {
    this.body.classList.remove("alone");
    if (!this.side.isConnected) this.body.append(this.side);
    fill(this.side, children);
    this.side.scrollTop = 0;
  }

  showRevision(revision) {
    this.chosen = revision;
    note({ revision: revision.revision, from: "", to: "" });
    const { author, reason, source_trajectory: source, model, summary } = revision;
    const details = facts([
      ["By", author],
      ["Why", reason && h("span", { class: "text" }, reason)],
      ["Learned from", source && trajectoryLink(this.dataset, source)],
      ["Model", model],
      ["Edits", summary],
      ["When", when(revision.committed_at)],
    ]);
    this.show(
      this.renderHead(`Revision ${revision.revision}`, chip(word(revision.kind, "REVISION_KIND_"))),
      details,
      this.actions(revision),
      h("h3", null, "Changes"),
      changes(this.dataset, revision.changes),
      renderRefused(revision),
    );
  }

  renderHead(text, aside) {
    return h(
      "div",
      { class: "detail-head" },
      h("h2", null, text),
      aside,
      h("button", { type: "button", class: "quiet end", onclick: () => this.close() }, "Close"),
    );
  }

  actions({ revision }) {
    const newest = revision === this.revisions[0].revision;
    return h(
      "div",
      { class: "actions" },
      h("a", { class: "button", href: link(["playbooks", this.dataset], { at: revision }) }, "Bullets as of here"),
      newest
        ? null
        : h(
            "button",
            { type: "button", onclick: () => this.compare(revision, this.revisions[0].revision) },
            "Changes since then",
          ),
      newest
        ? null
        : h("button", { type: "button", class: "danger", onclick: () => this.restore(revision) }, "Restore…"),
    );
  }

  compare(from, to) {
    note({ from, to, revision: "" });
    const found = h("div", null);
    this.show(this.renderHead(`Revision ${from} → ${to}`), found);
    load(
      found,
      this.signal,
      () => diff(this.dataset, from, to, this.signal),
      (found) => changes(this.dataset, found),
    );
  }

  async restore(revision) {
    const answer = await ask({
      title: `Restore revision ${revision}?`,
      text: "Its bullets become current again, as a new revision. The present bullets stay in the history.",
      fields: [{ name: "reason", label: "Why", kind: "text" }],
      confirm: "Restore",
      danger: true,
    });
    if (!answer) return;
    const done = await change(
      () => restore(this.dataset, revision, answer.reason),
      ({ revision: made }) => `Revision ${revision} is current again, as revision ${made}.`,
    );
    if (done) go(["playbooks", this.dataset, "history"], { revision: done.revision });
  }

  close() {
    this.body.classList.add("alone");
    this.side.remove();
    this.list.element.focus();
  }

  bind() {
    bind(
      [
        { keys: "j", what: "next revision", run: () => this.list.move(1) },
        { keys: "k", what: "previous revision", run: () => this.list.move(-1) },
        { keys: "R", what: "restore the revision", run: () => this.chosen && this.restore(this.chosen.revision) },
        { keys: "Escape", what: "close the revision", run: () => this.side.isConnected && this.close() },
      ],
      this.signal,
    );
  }
}

const row = ({ revision, kind, author, reason, summary, committed_at: time, bullets_after: after }) => [
  h("span", { class: "mono muted row-revision" }, revision),
  chip(word(kind, "REVISION_KIND_")),
  h("span", { class: "line" }, reason || summary),
  h("span", { class: "muted wide-only" }, author),
  h("span", { class: "muted wide-only" }, plural(after, "bullet")),
  h("span", { class: "muted when" }, when(time)),
];

function renderRefused({ operations }) {
  const lost = operations.filter(({ applied }) => !applied);
  if (!lost.length) return null;
  return [
    h("h3", null, "Changes that were not applied"),
    h(
      "ul",
      { class: "plain" },
      lost.map(({ delta, skipped_reason: why }) =>
        h("li", { class: "text" }, why, ": ", h("span", { class: "muted" }, delta?.content)),
      ),
    ),
  ];
}
