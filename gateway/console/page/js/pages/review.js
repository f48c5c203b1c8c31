/** Changes that wait for a person: what each would do, what happened to its target since, and the decision. */

import { every } from "../api.js";
import { changes } from "../changes.js";
import { datasetChoice, datasetTabs, lastDataset } from "../datasets.js";
import { ask } from "../dialog.js";
import { drawn } from "../diff.js";
import { fill, h } from "../dom.js";
import { bulletHistory, decide, diff, pending } from "../endpoints.js";
import { plural, word } from "../format.js";
import { bind } from "../keys.js";
import { delta as deltaChip, facts, head, key, state, when } from "../parts.js";
import { link } from "../router.js";
import { change, empty, load } from "../states.js";
import { VirtualList } from "../virtual.js";

const PAGE = 1000;
const RISK = { DELTA_TYPE_DELETE: 2, DELTA_TYPE_UPDATE: 1, DELTA_TYPE_ADD: 0 };
const SHOWN = {
  waiting: ["Waiting", ["PENDING_STATE_WAITING"]],
  decided: [
    "Decided",
    ["PENDING_STATE_APPROVED", "PENDING_STATE_REJECTED", "PENDING_STATE_EXPIRED", "PENDING_STATE_STALE"],
  ],
};

export const title = ({ dataset }) => `Review ${dataset}`;

export function open({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const queue = new Queue(dataset, query.show === "decided" ? "decided" : "waiting", signal);
  queue.load();
  return [
    head(dataset, [queue.count, datasetChoice("review", dataset, signal)], datasetTabs(dataset, "Review")),
    queue.toolbar(),
    queue.body,
  ];
}

class Queue {
  constructor(dataset, showing, signal) {
    Object.assign(this, { dataset, showing, signal, all: [], picked: new Set() });
    this.count = h("span", { role: "status" });
    this.body = h("div", { class: "split alone" });
    this.side = h("section", { class: "detail", "aria-label": "Change" });
    this.bind();
  }

  load() {
    return load(
      this.body,
      this.signal,
      () => this.read(),
      () => this.draw(),
    );
  }

  /** Oldest first; edits of what is there before new lessons, for they can do more harm. */
  async read() {
    const states = SHOWN[this.showing][1];
    const ask = (token) => pending(this.dataset, { states, page_size: PAGE, page_token: token }, this.signal);
    const all = await every(ask, "changes");
    this.all = all.sort((a, b) => RISK[b.delta.type] - RISK[a.delta.type]);
  }

  toolbar() {
    const views = Object.entries(SHOWN).map(([name, [text]]) =>
      h(
        "a",
        { href: link(["review", this.dataset], { show: name }), "aria-current": name === this.showing ? "page" : null },
        text,
      ),
    );
    this.approveAll = h(
      "button",
      { type: "button", class: "primary", onclick: () => this.approve() },
      "Approve ",
      key("a"),
    );
    this.rejectAll = h("button", { type: "button", onclick: () => this.reject() }, "Reject… ", key("x"));
    const decisions =
      this.showing === "waiting" ? h("span", { class: "end decisions" }, this.approveAll, this.rejectAll) : null;
    return h("div", { class: "toolbar" }, h("nav", { class: "tabs", "aria-label": "Changes" }, views), decisions);
  }

  draw() {
    this.tell();
    if (!this.all.length) return this.nothing();
    const onOpen = (each) => this.look(each);
    this.list = new VirtualList({
      label: "Changes",
      row: (each) => this.row(each),
      onSelect: onOpen,
      onMark: () => this.pick(),
    });
    this.list.show(this.all, ({ id }) => id);
    if (matchMedia("(min-width: 761px)").matches) requestAnimationFrame(() => this.list.select(0));
    return h("div", null, this.list.element);
  }

  nothing() {
    this.list = null;
    if (this.showing === "decided")
      return empty("No decisions yet", "Approved and rejected changes appear here with their reasons.");
    return empty("No pending changes", "Changes appear here when the policy of the dataset requires a review.");
  }

  row(each) {
    const picked = this.picked.has(each.id);
    return [
      h(
        "span",
        { class: `pick ${picked ? "picked" : ""}`, "data-mark": true, title: picked ? "picked" : "pick" },
        picked ? "✓" : "",
      ),
      deltaChip(each.delta.type),
      h("span", { class: "line" }, each.delta.content || each.present?.content || each.delta.bullet_id),
      this.showing === "decided"
        ? state(word(each.state, "PENDING_STATE_"))
        : h("span", { class: "muted line wide-only waits" }, each.waits_because),
      h("span", { class: "muted when" }, when(each.created_at)),
    ];
  }

  tell() {
    const many = this.picked.size
      ? `${this.picked.size} of ${this.all.length} picked`
      : plural(this.all.length, "change");
    this.count.textContent = many;
    for (const button of [this.approveAll, this.rejectAll]) button.disabled = !this.all.length;
  }

  look(each) {
    this.body.classList.remove("alone");
    if (!this.side.isConnected) this.body.append(this.side);
    fill(this.side, this.panel(each));
    this.side.scrollTop = 0;
  }

  panel(each) {
    const since = h("div", null);
    load(
      since,
      this.signal,
      () => happened(this.dataset, each, this.signal),
      (found) => told(this.dataset, each, found),
    );
    return [
      h(
        "div",
        { class: "detail-head" },
        deltaChip(each.delta.type),
        each.delta.bullet_id ? h("span", { class: "mono" }, each.delta.bullet_id) : null,
        h("button", { type: "button", class: "quiet end", onclick: () => this.close() }, "Close"),
      ),
      proposed(each),
      facts([
        ["Reason for review", each.waits_because],
        ["Reasoning", each.delta.reasoning && h("span", { class: "text" }, each.delta.reasoning)],
        ["Section", each.delta.section || each.present?.section],
        ["By", each.author],
        ["Learned from", each.source_trajectory && h("span", { class: "mono" }, each.source_trajectory)],
        ["Proposed", h("span", null, when(each.created_at), ` against revision ${each.base_revision}`)],
        ["Expires", when(each.expires_at)],
        [
          "Decided",
          each.decided_by &&
            h(
              "span",
              { class: "text" },
              `${word(each.state, "PENDING_STATE_")} by ${each.decided_by}${each.decision_reason ? `: ${each.decision_reason}` : ""}`,
            ),
        ],
      ]),
      h("h3", null, "Changes since then"),
      since,
    ];
  }

  close() {
    this.body.classList.add("alone");
    this.side.remove();
    this.list?.element.focus();
  }

  pick() {
    const each = this.list?.items[this.list.selected];
    if (!each || this.showing !== "waiting") return;
    if (!this.picked.delete(each.id)) this.picked.add(each.id);
    this.list.refresh();
    this.tell();
  }

  pickAll() {
    if (this.showing !== "waiting" || !this.list) return;
    this.picked = new Set(this.picked.size === this.all.length ? [] : this.all.map(({ id }) => id));
    this.list.refresh();
    this.tell();
  }

  /** The picked ones, else the one looked at. */
  get meant() {
    const each = this.list?.items[this.list.selected];
    return this.picked.size ? [...this.picked] : each ? [each.id] : [];
  }

  async approve() {
    const ids = this.meant;
    if (ids.length) await this.decided("DECISION_APPROVE", ids, "");
  }

  async reject() {
    const ids = this.meant;
    if (!ids.length) return;
    const fields = [{ name: "reason", label: "Why", kind: "long", required: true }];
    const answer = await ask({
      title: `Reject ${plural(ids.length, "change")}`,
      text: "The reason is stored with the change.",
      fields,
      confirm: "Reject",
      danger: true,
    });
    if (answer) await this.decided("DECISION_REJECT", ids, answer.reason);
  }

  async decided(decision, ids, reason) {
    const at = this.list.selected;
    const done = await change(() => inParts(ids, (part) => decide(this.dataset, decision, part, reason)), outcome);
    if (!done) return;
    const gone = new Set(ids);
    this.picked.clear();
    this.all = this.all.filter(({ id }) => !gone.has(id));
    fill(this.body, this.draw());
    if (this.list) requestAnimationFrame(() => this.list.select(Math.min(at, this.all.length - 1)));
  }

  bind() {
    bind(
      [
        { keys: "j", what: "next change", run: () => this.list?.move(1) },
        { keys: "k", what: "previous change", run: () => this.list?.move(-1) },
        { keys: "s", what: "pick the change, for several at once", run: () => this.pick() },
        { keys: "S", what: "pick all or none", run: () => this.pickAll() },
        { keys: "a", what: "approve", run: () => this.showing === "waiting" && this.approve() },
        { keys: "x", what: "reject with a reason", run: () => this.showing === "waiting" && this.reject() },
        { keys: "Escape", what: "close the change", run: () => this.side.isConnected && this.close() },
      ],
      this.signal,
    );
  }
}

/** At most 1,000 ids go in one request. */
async function inParts(ids, act) {
  const changed = [];
  for (let i = 0; i < ids.length; i += PAGE) changed.push(...(await act(ids.slice(i, i + PAGE))).changes);
  return changed;
}

function outcome(list) {
  const states = Object.groupBy(list, (each) => word(each.state, "PENDING_STATE_"));
  return Object.entries(states)
    .map(([name, all]) => `${all.length} ${name}`)
    .join(", ");
}

function proposed({ delta, present }) {
  if (delta.type === "DELTA_TYPE_ADD") return h("p", { class: "text lead" }, delta.content);
  if (!present)
    return [
      h("p", { class: "text lead" }, delta.content),
      h("p", { class: "bad" }, "Its bullet does not exist any more."),
    ];
  if (delta.type === "DELTA_TYPE_DELETE") return h("p", { class: "diff text lead" }, h("del", null, present.content));
  return drawn(present.content, delta.content);
}

/** For an edit of a bullet: what happened to that bullet; for a new one: what the playbook has become. */
async function happened(dataset, { delta, base_revision: base }, signal) {
  if (delta.bullet_id) {
    const { revisions } = await bulletHistory(dataset, delta.bullet_id, signal);
    return revisions.filter(({ revision }) => Number(revision) > Number(base)).flatMap((revision) => revision.changes);
  }
  return (await diff(dataset, base, undefined, signal)).changes;
}

function told(dataset, { delta, base_revision: base }, found) {
  if (!found.length)
    return h(
      "p",
      { class: "muted" },
      delta.bullet_id
        ? "The bullet has not changed since this was proposed."
        : "The playbook has not changed since this was proposed.",
    );
  const all = h(
    "a",
    { href: link(["playbooks", dataset, "history"], { from: base }) },
    `everything since revision ${base}`,
  );
  return [changes(dataset, found), h("p", null, "See ", all, ".")];
}
