/** One playbook: its bullets, now or as of an earlier revision, and the selected bullet. */

import { waitFor } from "../api.js";
import { renderDatasetMenu } from "../dataset_actions.js";
import { renderDatasetTabs, lastDataset } from "../datasets.js";
import { renderBullet } from "./bullet.js";
import { fillElement, h } from "../dom.js";
import { addBullet } from "../edits.js";
import { listBullets as page, readPlaybookAt } from "../endpoints.js";
import { formatCount, formatPlural, formatTime } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderConfidence, renderHead, renderState, renderVotes } from "../parts.js";
import { openRoute, formatLink, noteQuery } from "../router.js";
import { renderEmptyState, loadPart } from "../states.js";
import { VirtualList } from "../virtual.js";
import { t } from "../texts.js";

const FIRST = 50;
const NEXT = 1000;
/** The time after the first bullets in which they become usable, before the others are read. */
const PAUSE_MS = 300;

const ORDERS = {
  playbook: [t("playbook.playbook_order"), null],
  helpful: [t("playbook.most_helpful"), (a, b) => b.helpful - a.helpful],
  harmful: [t("playbook.most_harmful"), (a, b) => b.harmful - a.harmful],
  confidence: [t("playbook.least_confident"), (a, b) => a.confidence_score - b.confidence_score],
  changed: [t("playbook.last_changed"), (a, b) => b.updated_revision - a.updated_revision],
};

export const formatTitle = ({ dataset }) => dataset;

export function openPage({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const view = new View(dataset, query, signal);
  const head = renderHead(dataset, view.aside, renderDatasetTabs(dataset, t("common.bullets")));
  if (!isPoint(query)) return [head, renderNoPoint(dataset)];
  loadPart(
    view.body,
    signal,
    () => view.loadFirstPage(),
    () => view.draw(),
  );
  return [head, view.renderNotice(), view.body];
}

/** Returns whether the revision or the time of an address is one. */
const isPoint = ({ at, time }) => (!at || /^\d+$/.test(at)) && (!time || !Number.isNaN(Date.parse(time)));

function renderNoPoint(dataset) {
  const now = h("a", { class: "button", href: formatLink(["playbooks", dataset]) }, t("playbook.back_to_now"));
  return renderEmptyState(t("playbook.no_such_point"), t("playbook.an_address_has_a_revision"), now);
}

class View {
  constructor(dataset, query, signal) {
    Object.assign(this, { dataset, query, signal, all: [], shown: [], revision: 0 });
    /** The bullet of the address until it is selected; it may be on a later page. */
    this.wanted = query.bullet;
    this.aside = h("span", { role: "status" });
    this.body = h("div", { class: "split alone" });
    this.side = h("section", { class: "detail", "aria-label": t("common.bullet") });
    /** Aborts the requests of the selected bullet. */
    this.leaving = new AbortController();
  }

  /** Returns whether the page shows the newest revision. */
  get current() {
    return !this.query.at && !this.query.time;
  }

  renderNotice() {
    if (this.current) return null;
    const { at, time } = this.query;
    const point = at ? t("playbook.revision", { at }) : formatTime(time);
    return h(
      "div",
      { class: "notice" },
      t("playbook.this_is_the_playbook_as", { point }),
      h("a", { href: formatLink(["playbooks", this.dataset]) }, t("playbook.back_to_now")),
    );
  }

  /** The first bullets; the rest follows while they are read. */
  async loadFirstPage() {
    const { at, time } = this.query;
    if (at || time) {
      const { bullets, revision } = await readPlaybookAt(this.dataset, { revision: at, time }, this.signal);
      return this.addBullets(bullets, revision, bullets.length);
    }
    const answer = await page(this.dataset, { page_size: FIRST }, this.signal);
    this.addBullets(answer.bullets, answer.revision, answer.total_size);
    this.next = answer.next_page_token;
  }

  async loadOtherPages() {
    if (this.next) await waitFor(PAUSE_MS, this.signal);
    while (this.next) {
      const answer = await page(this.dataset, { page_size: NEXT, page_token: this.next }, this.signal);
      this.next = answer.next_page_token;
      this.addBullets(answer.bullets, answer.revision, answer.total_size);
      this.filterBullets();
      this.openWanted();
    }
  }

  addBullets(bullets, revision, total) {
    // Push in a loop: a spread of 100,000 arguments overflows the stack.
    for (const bullet of bullets)
      this.all.push({ ...bullet, helpful: Number(bullet.helpful), harmful: Number(bullet.harmful) });
    this.revision = revision;
    this.total = total;
  }

  draw() {
    if (!this.all.length) return this.renderEmpty();
    this.list = new VirtualList({
      label: t("common.bullets"),
      row: renderRow,
      onSelect: (bullet) => this.showBullet(bullet),
    });
    this.list.element.classList.add("lessons");
    this.bindKeys();
    const tools = this.renderToolbar();
    this.filterBullets();
    this.loadOtherPages().catch(
      (error) =>
        this.signal.aborted ||
        fillElement(
          this.aside,
          t("playbook.only_of_could_be_read", {
            length: formatCount(this.all.length),
            total: formatCount(this.total),
            message: error.message,
          }),
        ),
    );
    requestAnimationFrame(() => this.openWanted());
    return h("div", null, tools, this.list.element);
  }

  renderEmpty() {
    const learn = h(
      "a",
      { class: "button primary", href: formatLink(["learn", this.dataset]) },
      t("common.learn_from_a_trajectory"),
    );
    const buttons = [learn, this.renderAddButton(), this.current ? renderDatasetMenu(this.dataset, this.signal) : null];
    return renderEmptyState(t("playbook.no_bullets"), t("playbook.nothing_has_been_learned_here"), ...buttons);
  }

  renderToolbar() {
    const sections = h(
      "select",
      { "aria-label": t("common.section"), onchange: () => this.filterBullets() },
      h("option", { value: "" }, t("playbook.all_sections")),
    );
    const order = h(
      "select",
      { "aria-label": t("common.order"), onchange: () => this.filterBullets() },
      Object.entries(ORDERS).map(([name, [text]]) => h("option", { value: name }, text)),
    );
    const filter = h("input", {
      type: "search",
      class: "grow",
      placeholder: t("playbook.filter_bullets"),
      "aria-label": t("playbook.filter_bullets"),
      value: this.query.q ?? "",
      oninput: () => this.filterBullets(),
    });
    Object.assign(this, { sections, order, filter });
    const buttons = [
      this.renderAddButton(),
      this.renderTimeChooser(),
      this.current ? renderDatasetMenu(this.dataset, this.signal) : null,
    ];
    return h("div", { class: "toolbar" }, filter, sections, order, ...buttons);
  }

  renderAddButton() {
    if (!this.current) return null;
    return h("button", { type: "button", onclick: () => addBullet(this.dataset) }, t("playbook.add_a_lesson"));
  }

  renderTimeChooser() {
    const at = h("input", {
      type: "number",
      min: "0",
      max: this.revision,
      placeholder: this.revision,
    });
    const time = h("input", { type: "datetime-local" });
    const form = h(
      "form",
      { class: "as-of" },
      h("label", null, t("playbook.as_of_revision"), at),
      h("label", null, t("playbook.or_time"), time),
      h("button", null, t("playbook.show")),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const point = at.value ? { at: at.value } : time.value ? { time: new Date(time.value).toISOString() } : {};
      openRoute(["playbooks", this.dataset], point);
    });
    return h("details", { class: "more" }, h("summary", null, t("playbook.as_of")), form);
  }

  /** Shows the bullets that pass the filter, in the order chosen. */
  filterBullets() {
    this.offerSections();
    const text = this.filter.value.toLowerCase();
    const section = this.sections.value;
    const found = this.all.filter(
      (bullet) => (!section || bullet.section === section) && (!text || isMatch(bullet, text)),
    );
    const by = ORDERS[this.order.value][1];
    this.shown = by ? found.sort(by) : found;
    this.list.show(this.shown, ({ id }) => id);
    const some =
      found.length === this.total
        ? formatPlural(this.total, "bullet")
        : t("playbook.of", { length: formatCount(found.length), total: formatPlural(this.total, "bullet") });
    fillElement(this.aside, t("playbook.revision_2", { some, revision: this.revision }));
    noteQuery({ q: this.filter.value });
  }

  offerSections() {
    const names = [...new Set(this.all.map(({ section }) => section))].sort();
    if (names.length === this.sections.options.length - 1) return;
    const present = this.sections.value;
    fillElement(
      this.sections,
      h("option", { value: "" }, t("playbook.all_sections")),
      names.map((name) => h("option", { value: name, selected: name === present }, name || t("playbook.no_section"))),
    );
  }

  /** Opens the bullet of the address when it has been read, also if the filter hides its row. */
  openWanted() {
    const { wanted } = this;
    if (!wanted) return;
    const bullet = this.all.find(({ id }) => id === wanted);
    if (!bullet && this.next) return;
    const index = this.shown.indexOf(bullet);
    if (index >= 0) this.list.select(index);
    else if (bullet) this.showBullet(bullet);
    else this.showMissing(wanted);
  }

  showMissing(id) {
    const history = h(
      "a",
      { class: "button", href: formatLink(["playbooks", this.dataset, "history"]) },
      t("history.history_of", { dataset: this.dataset }),
    );
    this.showSide(renderEmptyState(t("playbook.no_bullet", { id }), t("playbook.it_was_removed_or"), history));
  }

  showBullet(bullet) {
    noteQuery({ bullet: bullet.id });
    this.leaving.abort();
    this.leaving = new AbortController();
    const signal = AbortSignal.any([this.signal, this.leaving.signal]);
    this.showSide(renderBullet(this.dataset, bullet, signal, () => this.close(), this.current));
  }

  showSide(...children) {
    this.wanted = "";
    this.body.classList.remove("alone");
    if (!this.side.isConnected) this.body.append(this.side);
    fillElement(this.side, children);
    this.side.scrollTop = 0;
  }

  close() {
    noteQuery({ bullet: "" });
    this.leaving.abort();
    this.body.classList.add("alone");
    this.side.remove();
    this.list.element.focus();
  }

  bindKeys() {
    bindKeys(
      [
        { keys: "j", what: t("playbook.next_bullet"), run: () => this.list.move(1) },
        { keys: "k", what: t("playbook.previous_bullet"), run: () => this.list.move(-1) },
        { keys: "/", what: t("playbook.filter_bullets_2"), run: () => this.filter.focus() },
        { keys: "Escape", what: t("playbook.close_the_bullet"), run: () => this.side.isConnected && this.close() },
        {
          keys: "h",
          what: t("playbook.history_of_the_playbook"),
          run: () => openRoute(["playbooks", this.dataset, "history"]),
        },
      ],
      this.signal,
    );
  }
}

const isMatch = ({ id, content, section, source_trajectory: source }, text) =>
  [id, content, section, source].some((field) => field.toLowerCase().includes(text));

function renderRow(bullet) {
  return [
    h("span", { class: "line lesson" }, bullet.content),
    bullet.state === "BULLET_STATE_RETIRED" ? renderState("retired") : null,
    h("span", { class: "line wide-only section" }, bullet.section),
    renderVotes(bullet),
    renderConfidence(bullet.confidence_score),
    h("span", { class: "mono muted row-id wide-only" }, bullet.id),
  ];
}
