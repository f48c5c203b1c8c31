/** One trajectory: what is known of it, and its steps. */

import { renderDatasetTabs, lastDataset } from "../datasets.js";
import { askInDialog } from "../dialog.js";
import { fillElement, h } from "../dom.js";
import { listBullets, deleteTrajectory, readTrajectory } from "../endpoints.js";
import { formatCost, formatCount, formatPlural, shortenText, formatEnum, readEnum } from "../format.js";
import { bindKeys } from "../keys.js";
import { renderFacts, renderHead, renderState, renderTime } from "../parts.js";
import { openRoute, formatLink, noteQuery } from "../router.js";
import { loadPart, renderEmptyState } from "../states.js";
import { drawStep, renderLongText } from "../trace.js";
import { t } from "../texts.js";

/** Steps in the document at once; buttons show the others. */
const WINDOW = 200;
/** Bullets whose texts are read. */
const MOST = 200;
const LINE = 160;
const MISSING = {
  ARCHIVE_NOT_FOUND: t("trace.not_in_the_archive"),
  TRAJECTORY_NOT_FOUND: t("trace.not_in_the_archive"),
  TRAJECTORY_DELETED: t("trace.deleted"),
};

export const formatTitle = ({ id }) => t("trace.trajectory", { id });

export function openPage({ params: { dataset, id }, query, signal }) {
  lastDataset.name = dataset;
  const view = new Trace(dataset, id, query, signal);
  view.load();
  return [renderHead(dataset, view.aside, renderDatasetTabs(dataset, t("common.trajectories"))), view.body];
}

/** Returns a number as a text; nothing for one that is unknown. */
const formatKnown = (value, format) => (value === undefined || value === null ? "" : format(Number(value)));

/** Returns the tokens of a trajectory as a sentence, with a dash for an unknown number; nothing if all are unknown. */
function describeTokens(usage) {
  const [input, cached, output] = ["input_tokens", "cached_input_tokens", "output_tokens"].map((field) =>
    formatKnown(usage?.[field], formatCount),
  );
  if (!input && !output) return "";
  return t("trace.input_cached_output", { input: input || "–", cached: cached || "–", output: output || "–" });
}

class Trace {
  constructor(dataset, id, query, signal) {
    Object.assign(this, { dataset, id, content: query.content, signal, steps: [], present: -1 });
    this.wanted = /^\d{1,9}$/.test(query.step ?? "") ? Number(query.step) : -1;
    this.aside = h("span", { role: "status" });
    this.body = h("div", { class: "scroll" });
    this.list = h("ol", { class: "trace plain" });
    this.bindKeys();
  }

  bindKeys() {
    const back = () => openRoute(["trajectories", this.dataset]);
    bindKeys(
      [
        { keys: "j", what: t("trace.next_step"), run: () => this.move(1) },
        { keys: "k", what: t("trace.previous_step"), run: () => this.move(-1) },
        { keys: "e", what: t("trace.next_error"), run: () => this.moveToError() },
        { keys: "Escape", what: t("trace.back_to_the_trajectories"), run: back },
      ],
      this.signal,
    );
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
    try {
      const found = await readTrajectory(this.dataset, this.id, { content_hash: this.content }, this.signal);
      return { ...found, lessons: await this.readLessons(found.summary) };
    } catch (failure) {
      if (failure.reason in MISSING) return { missing: failure };
      throw failure;
    }
  }

  /** Returns the bullets of the trajectory by their ids, as far as the playbook still has them. */
  async readLessons({ learned_bullet_ids: learned, served_bullet_ids: served, cited_bullet_ids: cited }) {
    const ids = [...new Set([...learned, ...served, ...cited])].slice(0, MOST);
    if (!ids.length) return new Map();
    try {
      const found = await listBullets(this.dataset, { ids, page_size: MOST }, this.signal);
      return new Map(found.bullets.map((bullet) => [bullet.id, bullet]));
    } catch (failure) {
      if (failure.reason === "DATASET_NOT_FOUND") return new Map();
      throw failure;
    }
  }

  draw({ missing, summary, trajectory, ground_truth: truth, test_report: report, lessons }) {
    if (missing) return this.renderMissing(missing);
    // A trajectory without steps has its reasoning only.
    const thoughts = trajectory.reasoning_steps.map((content) => ({
      role: "STEP_ROLE_ASSISTANT",
      content,
      tool_calls: [],
    }));
    this.steps = trajectory.steps.length ? trajectory.steps : thoughts;
    this.errors = new Map(summary.errors.map((error) => [error.step, error]));
    this.lessonsByStep = Map.groupBy(this.findLessonSteps(lessons), ({ step }) => step);
    this.showWindow(Math.max(0, Math.min(this.wanted, this.steps.length - 1)));
    fillElement(this.aside, formatPlural(this.steps.length, "step"));
    if (this.wanted >= 0 && this.wanted < this.steps.length)
      requestAnimationFrame(() => this.signal.aborted || this.select(this.wanted));
    return h(
      "article",
      { class: "narrow" },
      this.renderHead(summary),
      renderLongText(trajectory.query, "text lead"),
      this.wanted >= this.steps.length
        ? h("p", { class: "bad" }, t("trace.there_is_no_step", { wanted: this.wanted }))
        : null,
      this.renderFacts(summary, trajectory, lessons),
      renderCollapsibleText(t("trace.ground_truth"), truth),
      renderCollapsibleText(t("trace.test_report"), report),
      h("h2", null, t("common.steps")),
      this.list,
      trajectory.generated_answer
        ? [h("h2", null, t("common.answer")), renderLongText(trajectory.generated_answer, "text card")]
        : null,
    );
  }

  renderMissing({ reason, message }) {
    const all = h(
      "a",
      { class: "button", href: formatLink(["trajectories", this.dataset]) },
      t("common.show_all_trajectories"),
    );
    return renderEmptyState(MISSING[reason], message, all);
  }

  renderHead({ status }) {
    return h(
      "div",
      { class: "detail-head" },
      h("a", { href: formatLink(["trajectories", this.dataset]) }, t("trace.all_trajectories")),
      renderState(readEnum(status, "TRAJECTORY_STATUS_") || "unknown"),
      h("button", { type: "button", class: "danger end", onclick: () => this.delete() }, t("trace.delete")),
    );
  }

  renderFacts(summary, trajectory, lessons) {
    const { errors, learned_bullet_ids: learned, served_bullet_ids: served, cited_bullet_ids: cited } = summary;
    return renderFacts([
      [t("common.trajectory"), h("span", { class: "mono" }, this.id)],
      [t("common.task"), trajectory.task_id && h("span", { class: "mono" }, trajectory.task_id)],
      [t("trace.reward"), summary.reward],
      [t("trace.signal"), formatEnum(trajectory.signal, "SIGNAL_STRENGTH_")],
      [t("trace.broke_off_with"), trajectory.error_message && renderLongText(trajectory.error_message, "text bad")],
      [t("common.agents"), summary.agents.join(", ")],
      [t("trace.tools"), summary.tools.join(", ")],
      [t("common.tokens"), describeTokens(summary.usage)],
      [t("common.cost"), formatKnown(summary.usage?.cost_usd, formatCost)],
      [t("trace.ran"), renderTime(summary.created_at)],
      [t("trace.stored"), renderTime(summary.stored_at)],
      [t("trace.errors"), errors.length ? this.renderErrors(errors) : null],
      [t("common.learned"), this.renderLessons(learned, lessons)],
      [t("trace.served"), this.renderLessons(served, lessons)],
      [t("trace.cited"), this.renderLessons(cited, lessons)],
    ]);
  }

  renderErrors(errors) {
    const lines = errors.map(({ step, operation, message }) =>
      h("li", null, this.renderStepLink(step), h("span", { class: "bad" }, ` ${operation}: ${message}`)),
    );
    return h("ul", { class: "plain" }, lines);
  }

  renderLessons(ids, lessons) {
    if (!ids.length) return null;
    return h(
      "ul",
      { class: "plain" },
      ids.map((id) => h("li", null, this.renderLessonLink(id, lessons.get(id)))),
    );
  }

  renderLessonLink(id, bullet) {
    const text = bullet ? shortenText(bullet.content, LINE) : id;
    return h("a", { href: formatLink(["playbooks", this.dataset], { bullet: id }) }, text);
  }

  renderStepLink(step) {
    const query = { content: this.content, step };
    return h("a", { href: formatLink(["trajectories", this.dataset, this.id], query) }, t("trace.step", { step }));
  }

  /** Returns the bullets that rest on single steps: `{step, id, bullet}`. */
  findLessonSteps(lessons) {
    return [...lessons].flatMap(([id, bullet]) =>
      bullet.sources
        .filter(({ trajectory_id: source }) => source === this.id)
        .flatMap(({ steps }) => steps.map((step) => ({ step, id, bullet }))),
    );
  }

  /** Shows the steps around one. */
  showWindow(step) {
    this.from = Math.floor(step / WINDOW) * WINDOW;
    const to = Math.min(this.from + WINDOW, this.steps.length);
    this.present = -1;
    fillElement(
      this.list,
      this.renderWindowButton(this.from - WINDOW, this.from - 1),
      this.steps.slice(this.from, to).map((step, i) => this.renderStep(step, this.from + i)),
      this.renderWindowButton(to, to),
    );
  }

  /** A button that shows the steps from one on, and goes to one of them. */
  renderWindowButton(from, step) {
    if (from < 0 || from >= this.steps.length) return null;
    const last = Math.min(from + WINDOW, this.steps.length) - 1;
    return h(
      "li",
      null,
      h("button", { type: "button", onclick: () => this.select(step) }, t("trace.show_steps_to", { from, last })),
    );
  }

  renderStep(step, index) {
    const learned = this.lessonsByStep.get(index) ?? [];
    return drawStep(step, {
      index,
      error: this.errors.get(index),
      address: this.renderStepLink(index),
      calls: this.findCall(step, index),
      learned: learned.map(({ id, bullet }) => this.renderLessonLink(id, bullet)),
    });
  }

  /** Returns a link to the step whose call this one answers, where it names it: the last one, because ids may repeat. */
  findCall({ tool_call_id: wanted }, index) {
    if (!wanted) return null;
    const calls = this.steps.slice(0, index).findLastIndex((step) => step.tool_calls.some(({ id }) => id === wanted));
    return calls < 0 ? null : this.renderStepLink(calls);
  }

  /** Marks a step, scrolls to it and notes it in the address. */
  select(index) {
    if (index < this.from || index >= this.from + WINDOW) this.showWindow(index);
    this.list.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const step = this.list.querySelector(`[data-step="${index}"]`);
    step.setAttribute("aria-current", "true");
    step.scrollIntoView({ block: "start" });
    step.focus({ preventScroll: true });
    this.present = index;
    noteQuery({ step: index });
  }

  move(by) {
    const last = this.steps.length - 1;
    if (last >= 0) this.select(Math.min(Math.max(this.present + by, 0), last));
  }

  moveToError() {
    const steps = [...(this.errors?.keys() ?? [])].sort((a, b) => a - b);
    const next = steps.find((step) => step > this.present) ?? steps[0];
    if (next !== undefined && next < this.steps.length) this.select(next);
  }

  async delete() {
    const done = await askInDialog({
      title: t("trace.delete_this_trajectory"),
      text: t("trace.all_that_is_stored_under"),
      confirm: t("common.delete"),
      danger: true,
      act: () => deleteTrajectory(this.dataset, this.id),
      done: t("trace.the_trajectory_is_deleted"),
    });
    if (done) openRoute(["trajectories", this.dataset]);
  }
}

function renderCollapsibleText(name, text) {
  if (!text) return null;
  const summary = h(
    "summary",
    null,
    name,
    h("span", { class: "muted" }, t("trace.characters", { length: formatCount(text.length) })),
  );
  return h("details", { class: "attachment" }, summary, renderLongText(text, "text mono"));
}
