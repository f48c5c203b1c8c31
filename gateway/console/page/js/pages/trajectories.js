/** The archive of a dataset: its trajectories by status, tool, error and bullet. */

import { renderDatasetChoice, renderDatasetTabs, lastDataset } from "../datasets.js";
import { fillElement, h } from "../dom.js";
import { listTrajectories } from "../endpoints.js";
import { formatPlural, readEnum } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderHead, renderState, renderTime } from "../parts.js";
import { openRoute, formatLink, noteQuery } from "../router.js";
import { loadPart, renderEmptyState } from "../states.js";
import { VirtualList } from "../virtual.js";
import { t } from "../texts.js";

const PAGE = 100;
const STATUSES = { success: t("common.success"), failure: t("common.failure") };
/** What a trajectory can have to do with the bullet of the filter. */
const RELATIONS = {
  learned: t("trajectories.learned_bullet"),
  served: t("trajectories.served_bullet"),
  cited: t("trajectories.cited_bullet"),
};

export const formatTitle = ({ dataset }) => t("trajectories.trajectories", { dataset });

export function openPage({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const view = new Trajectories(dataset, query, signal);
  const tools = view.renderToolbar();
  view.load();
  return [
    renderHead(
      dataset,
      [view.count, renderDatasetChoice("trajectories", dataset, signal)],
      renderDatasetTabs(dataset, t("common.trajectories")),
    ),
    tools,
    view.body,
  ];
}

class Trajectories {
  constructor(dataset, query, signal) {
    Object.assign(this, { dataset, query, signal });
    this.count = h("span", { role: "status" });
    this.body = h("div", { class: "split alone" });
    bindKeys(
      [
        { keys: "j", what: t("trajectories.next_trajectory"), run: () => this.list?.move(1) },
        { keys: "k", what: t("trajectories.previous_trajectory"), run: () => this.list?.move(-1) },
        { keys: "Enter, o", what: t("common.open_it"), run: () => this.list?.open() },
        { keys: "/", what: t("trajectories.find_an_error"), run: () => this.error.focus() },
      ],
      signal,
    );
  }

  renderToolbar() {
    this.status = this.createSelect(
      t("common.status"),
      { "": t("trajectories.any_status"), ...STATUSES },
      this.query.status,
    );
    this.tool = this.createInput(t("trajectories.tool"), this.query.tool, "short");
    this.agent = this.createInput(t("common.agent"), this.query.agent, "short");
    this.error = this.createInput(t("trajectories.error_contains"), this.query.error, "grow");
    const relation = Object.keys(RELATIONS).find((name) => this.query[name]) ?? "learned";
    this.bullet = this.createInput(t("trajectories.bullet_id"), this.query[relation], "short");
    this.relation = this.createSelect(t("trajectories.relation_to_the_bullet"), RELATIONS, relation);
    return h(
      "div",
      { class: "toolbar filters" },
      this.status,
      this.agent,
      this.tool,
      this.error,
      this.relation,
      this.bullet,
    );
  }

  createInput(label, value = "", kind) {
    const onchange = () => this.filter();
    return h("input", { type: "search", class: kind, placeholder: label, "aria-label": label, value, onchange });
  }

  createSelect(label, texts, present = "") {
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
      agent: this.agent.value.trim(),
      tool: this.tool.value.trim(),
      error: this.error.value.trim(),
      ...Object.fromEntries(relations),
      [this.relation.value]: this.bullet.value.trim(),
      page: "",
    };
    noteQuery(this.query);
    return this.load();
  }

  load() {
    return loadPart(
      this.body,
      this.signal,
      () => this.read(),
      (page) => this.draw(page),
    );
  }

  async read() {
    const { status, agent, tool, error, learned, served, cited, page } = this.query;
    const request = {
      status: status in STATUSES ? `TRAJECTORY_STATUS_${status.toUpperCase()}` : "",
      agent,
      tool,
      error,
      learned_bullet_id: learned,
      served_bullet_id: served,
      cited_bullet_id: cited,
      page_size: PAGE,
      page_token: page,
    };
    try {
      return await listTrajectories(this.dataset, request, this.signal);
    } catch (failure) {
      if (failure.reason === "ARCHIVE_NOT_FOUND") return { trajectories: [], next_page_token: "" };
      throw failure;
    }
  }

  draw({ trajectories: found, next_page_token: next }) {
    const rest = next || this.query.page ? t("trajectories.on_this_page") : "";
    fillElement(this.count, found.length ? formatPlural(found.length, "trajectory") + rest : "");
    this.list = null;
    if (!found.length) return this.renderEmpty();
    const onOpen = ({ trajectory_id: id, content_hash: content }) =>
      openRoute(["trajectories", this.dataset, id], { content });
    this.list = new VirtualList({ label: t("common.trajectories"), row: renderRow, onOpen });
    this.list.show(found, ({ content_hash: hash }) => hash);
    return h("div", null, this.list.element, this.renderPages(next));
  }

  renderPages(next) {
    const address = (page) => formatLink(["trajectories", this.dataset], { ...this.query, page });
    const first = this.query.page ? h("a", { class: "button", href: address("") }, t("trajectories.first_page")) : null;
    const further = next ? h("a", { class: "button", href: address(next) }, t("trajectories.next_page")) : null;
    return first || further
      ? h("nav", { class: "toolbar pages", "aria-label": t("trajectories.pages_of_the_list") }, first, further)
      : null;
  }

  renderEmpty() {
    if (Object.values(this.query).some(Boolean)) {
      const all = h(
        "a",
        { class: "button", href: formatLink(["trajectories", this.dataset]) },
        t("common.show_all_trajectories"),
      );
      return renderEmptyState(
        t("trajectories.no_trajectory_found"),
        t("trajectories.no_trajectory_in_the_archive"),
        all,
      );
    }
    const text = t("trajectories.every_trajectory_that_is_learned");
    const learn = h(
      "a",
      { class: "button primary", href: formatLink(["learn", this.dataset]) },
      t("common.learn_from_a_trajectory"),
    );
    return renderEmptyState(t("trajectories.no_trajectories"), text, learn);
  }
}

const renderRow = ({ trajectory_id: id, status, query, errors, steps, created_at: created }) => [
  h("span", { class: "row-state" }, renderState(readEnum(status, "TRAJECTORY_STATUS_") || "unknown")),
  h("span", { class: "line" }, query || h("span", { class: "mono" }, id)),
  h("span", { class: "muted line wide-only row-error" }, errors.length ? formatSignature(errors[0]) : ""),
  h("span", { class: "row-count" }, formatPlural(steps, "step")),
  h("span", { class: "muted when" }, renderTime(created)),
];

const formatSignature = ({ operation, message }) => `${operation}: ${message}`;
