/** The archive of a dataset: its trajectories by status, tool, error and bullet. */

import { renderDatasetChoice, renderDatasetTabs, lastDataset } from "../datasets.js";
import { fill, h } from "../dom.js";
import { trajectories } from "../endpoints.js";
import { plural, word } from "../format.js";
import { bind } from "../keys.js";
import { head, state, when } from "../parts.js";
import { go, link, note } from "../router.js";
import { load, showEmpty } from "../states.js";
import { VirtualList } from "../virtual.js";

const PAGE = 100;
const STATUSES = { success: "Success", failure: "Failure" };
/** What a trajectory can have to do with the bullet of the filter. */
const RELATIONS = { learned: "Learned bullet", served: "Served bullet", cited: "Cited bullet" };

export const title = ({ dataset }) => `Trajectories ${dataset}`;

export function open({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const view = new Trajectories(dataset, query, signal);
  const tools = view.toolbar();
  view.load();
  return [
    head(dataset, [view.count, renderDatasetChoice("trajectories", dataset, signal)], renderDatasetTabs(dataset, "Trajectories")),
    tools,
    view.body,
  ];
}

class Trajectories {
  constructor(dataset, query, signal) {
    Object.assign(this, { dataset, query, signal });
    this.count = h("span", { role: "status" });
    this.body = h("div", { class: "split alone" });
    bind(
      [
        { keys: "j", what: "next trajectory", run: () => this.list?.move(1) },
        { keys: "k", what: "previous trajectory", run: () => this.list?.move(-1) },
        { keys: "Enter, o", what: "open it", run: () => this.list?.open() },
        { keys: "/", what: "find an error", run: () => this.error.focus() },
      ],
      signal,
    );
  }

  toolbar() {
    this.status = this.select("Status", { "": "Any status", ...STATUSES }, this.query.status);
    this.tool = this.input("Tool", this.query.tool, "short");
    this.error = this.input("Error contains", this.query.error, "grow");
    const relation = Object.keys(RELATIONS).find((name) => this.query[name]) ?? "learned";
    this.bullet = this.input("Bullet id", this.query[relation], "short");
    this.relation = this.select("Relation to the bullet", RELATIONS, relation);
    return h("div", { class: "toolbar filters" }, this.status, this.tool, this.error, this.relation, this.bullet);
  }

  input(label, value = "", kind) {
    const onchange = () => this.filter();
    return h("input", { type: "search", class: kind, placeholder: label, "aria-label": label, value, onchange });
  }

  select(label, texts, present = "") {
    const options = Object.entries(texts).map(([value, text]) =>
      h("option", { value, selected: value === present }, text),
    );
    return h("select", { "aria-label": label, onchange: () => this.filter() }, options);
  }

  /** Shows the first page of what the filters let through, and notes them in the address. */
  filter() {
    const relations = Object.keys(RELATIONS).map((name) => [name, ""]);
    this.query = {
      status: this.status.value,
      tool: this.tool.value.trim(),
      error: this.error.value.trim(),
      ...Object.fromEntries(relations),
      [this.relation.value]: this.bullet.value.trim(),
      page: "",
    };
    note(this.query);
    return this.load();
  }

  load() {
    return load(
      this.body,
      this.signal,
      () => this.read(),
      (page) => this.draw(page),
    );
  }

  async read() {
    const { status, tool, error, learned, served, cited, page } = this.query;
    const request = {
      status: status in STATUSES ? `TRAJECTORY_STATUS_${status.toUpperCase()}` : "",
      tool,
      error,
      learned_bullet_id: learned,
      served_bullet_id: served,
      cited_bullet_id: cited,
      page_size: PAGE,
      page_token: page,
    };
    try {
      return await trajectories(this.dataset, request, this.signal);
    } catch (failure) {
      if (failure.reason === "ARCHIVE_NOT_FOUND") return { trajectories: [], next_page_token: "" };
      throw failure;
    }
  }

  draw({ trajectories: found, next_page_token: next }) {
    const rest = next || this.query.page ? " on this page" : "";
    fill(this.count, found.length ? plural(found.length, "trajectory") + rest : "");
    this.list = null;
    if (!found.length) return this.renderEmpty();
    const onOpen = ({ trajectory_id: id, content_hash: content }) => go(["trajectories", this.dataset, id], { content });
    this.list = new VirtualList({ label: "Trajectories", row, onOpen });
    this.list.show(found, ({ content_hash: hash }) => hash);
    return h("div", null, this.list.element, this.renderPages(next));
  }

  renderPages(next) {
    const address = (page) => link(["trajectories", this.dataset], { ...this.query, page });
    const first = this.query.page ? h("a", { class: "button", href: address("") }, "First page") : null;
    const further = next ? h("a", { class: "button", href: address(next) }, "Next page") : null;
    return first || further ? h("nav", { class: "toolbar pages", "aria-label": "Pages of the list" }, first, further) : null;
  }

  renderEmpty() {
    if (Object.values(this.query).some(Boolean)) {
      const all = h("a", { class: "button", href: link(["trajectories", this.dataset]) }, "Show all trajectories");
      return showEmpty("No trajectory found", "No trajectory in the archive passes all filters.", all);
    }
    const text = "Every trajectory that is learned or reported with the outcome of a session is stored here a moment later.";
    const learn = h("a", { class: "button primary", href: link(["learn", this.dataset]) }, "Learn from a trajectory");
    return showEmpty("No trajectories", text, learn);
  }
}

const row = ({ trajectory_id: id, status, query, errors, steps, created_at: created }) => [
  h("span", { class: "row-state" }, state(word(status, "TRAJECTORY_STATUS_") || "unknown")),
  h("span", { class: "line" }, query || h("span", { class: "mono" }, id)),
  h("span", { class: "muted line wide-only row-error" }, errors.length ? signature(errors[0]) : ""),
  h("span", { class: "row-count" }, plural(steps, "step")),
  h("span", { class: "muted when" }, when(created)),
];

const signature = ({ operation, message }) => `${operation}: ${message}`;
