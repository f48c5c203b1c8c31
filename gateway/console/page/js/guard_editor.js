/** The editor of a guard: its target and mode, and beside them the backtest on the archived trajectories. */

import { fillElement, h } from "./dom.js";
import { describeEdit } from "./edits.js";
import { applyDelta, runBacktest, storeBacktest } from "./endpoints.js";
import { formatCount, formatEnum, formatPercent, formatPlural } from "./format.js";
import { renderFacts } from "./parts.js";
import { formatLink } from "./router.js";
import { renderLoading, logUnexpectedError, runChange, showToast } from "./states.js";
import { t } from "./texts.js";

const PAUSE_MS = 500;
/** The most characters of a target; the contract allows no more. */
const MOST_CHARACTERS = 2000;
const PAGE = 500;
/** Archived trajectories that a backtest reads; a stored one reads as many. */
const MOST = 5000;
const SHOWN = 20;
const MODES = [
  ["TARGET_MODE_SHADOW", t("guards.shadow_count_the_call")],
  ["TARGET_MODE_ADVISE", t("guards.advise_give_the_agent_the")],
  ["TARGET_MODE_ASK", t("guards.ask_a_person_decides")],
  ["TARGET_MODE_DENY", t("guards.deny_refuse_the_call")],
];

/** `guard.bullet_id` is empty for a new lesson; `saved(bullet, revision)` is called after each change. */
export class GuardEditor {
  constructor(dataset, guard, revision, signal, saved) {
    Object.assign(this, { dataset, guard, revision, signal, saved });
    this.createInputs();
    this.fault = h("p", { id: "target-fault", class: "bad text", role: "alert" });
    this.result = h("section", { class: "backtest", "aria-label": t("guards.backtest") });
    this.element = h("div", { class: "guard-editor" }, this.renderForm(), this.result);
    signal.addEventListener("abort", () => this.stop(), { once: true });
    this.test();
  }

  createInputs() {
    const { target, requested_mode: mode } = this.guard;
    this.expression = h("textarea", {
      rows: 4,
      required: true,
      class: "mono",
      spellcheck: "false",
      "aria-describedby": "target-fault",
      value: target?.expression ?? "",
      placeholder: "call.tool == 'refund' && !succeeded('get_order')",
      oninput: () => this.scheduleTest(),
    });
    this.mode = h(
      "select",
      null,
      MODES.map(([value, text]) => h("option", { value, selected: value === mode }, text)),
    );
    this.pinned = h("input", { type: "checkbox", checked: target?.pinned === true });
    this.reason = h("input", { autocomplete: "off" });
    this.lesson = h("textarea", { rows: 3, required: true });
    this.section = h("input", { required: true, value: "strategies_and_hard_rules" });
    this.inputs = [this.expression, this.mode, this.pinned, this.reason, this.lesson, this.section];
    this.before = this.readInputs();
  }

  readInputs() {
    return JSON.stringify(this.inputs.map(({ value, checked }) => [value, checked]));
  }

  /** Returns whether a person has changed something that is not saved. */
  get isChanged() {
    return this.readInputs() !== this.before;
  }

  renderForm() {
    const { bullet_id: id, target } = this.guard;
    const field = (label, input) => h("label", { class: "field" }, label, input);
    const remove = h(
      "button",
      { type: "button", class: "danger", onclick: () => this.save({ expression: "" }) },
      t("guards.remove_the_target"),
    );
    const form = h(
      "form",
      null,
      id ? null : [field(t("edits.lesson"), this.lesson), field(t("common.section"), this.section)],
      field(t("guards.target"), this.expression),
      this.fault,
      field(t("guards.mode"), this.mode),
      h("label", { class: "check" }, this.pinned, t("guards.pin_the_mode")),
      field(t("common.why"), this.reason),
      h("div", { class: "actions" }, h("button", { class: "primary" }, t("common.save")), target ? remove : null),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.save({ expression: this.expression.value.trim(), mode: this.mode.value, pinned: this.pinned.checked });
    });
    return form;
  }

  /** Ends the backtest that runs. */
  stop() {
    clearTimeout(this.timer);
    this.turn?.abort();
  }

  scheduleTest() {
    this.stop();
    this.timer = setTimeout(() => this.test(), PAUSE_MS);
  }

  /** Tests the target on the archive, page by page; the counts of the last page are those of all. */
  async test() {
    this.stop();
    const turn = (this.turn = new AbortController());
    const expression = this.expression.value.trim();
    this.showFault("");
    if (!expression) return fillElement(this.result, renderHeading(), renderNote(t("guards.write_a_target_to_test")));
    if (this.isTooLong(expression))
      return fillElement(this.result, renderHeading(), renderNote(t("guards.correct_the_target_to_test")));
    fillElement(this.result, renderHeading(), renderLoading(4));
    const firings = [];
    let page = { next_page_token: "" };
    try {
      do {
        const query = { expression, archive: { dataset: this.dataset }, page_size: PAGE };
        page = await runBacktest({ ...query, page_token: page.next_page_token }, turn.signal);
        firings.push(...page.firings);
      } while (page.next_page_token && page.failed_trajectories + page.passed_trajectories < MOST);
      fillElement(this.result, renderHeading(), this.renderResult(page, firings));
    } catch (error) {
      if (!turn.signal.aborted) this.showRefusal(error);
    }
  }

  /** Shows a target that does not compile beside its field, and any other error in the place of the backtest. */
  showRefusal(error) {
    logUnexpectedError(error);
    if (error.reason === "TARGET_INVALID") this.showFault(`${t("guards.target")}: ${error.message}`);
    const text =
      error.reason === "TARGET_INVALID"
        ? t("guards.correct_the_target_to_test")
        : error.reason === "ARCHIVE_NOT_FOUND"
          ? t("guards.no_trajectory_is_archived")
          : error.message;
    fillElement(this.result, renderHeading(), renderNote(text));
  }

  /** Returns whether a target is too long, and says so beside its field. */
  isTooLong(expression) {
    const length = [...expression].length;
    if (length <= MOST_CHARACTERS) return false;
    const values = { most: formatCount(MOST_CHARACTERS), length: formatCount(length) };
    this.showFault(t("guards.target_is_too_long", values));
    return true;
  }

  showFault(text) {
    fillElement(this.fault, text);
    this.expression.setAttribute("aria-invalid", String(text !== ""));
  }

  renderResult(page, firings) {
    const { failed_trajectories: failed, passed_trajectories: passed, skipped_trajectories: skipped } = page;
    const store = h("button", { type: "button", onclick: () => this.store() }, t("guards.store_the_backtest"));
    const share = (count, trajectories) => t("guards.of_trajectories", { count: formatCount(count), trajectories });
    return [
      renderFacts([
        [t("guards.failing"), share(page.failed_with_firing, formatPlural(failed, "failed trajectory"))],
        [t("guards.passing"), share(page.false_alarms, formatPlural(passed, "passed trajectory"))],
        [
          t("guards.false_alarm_bound"),
          passed
            ? t("guards.at_most", { bound: formatBound(page.false_alarm_bound) })
            : t("guards.no_passed_trajectory"),
        ],
        [t("guards.not_tested"), skipped ? t("guards.without_a_sure_outcome", { count: formatCount(skipped) }) : null],
      ]),
      page.next_page_token ? renderNote(t("guards.the_newest_were_tested", { most: formatCount(MOST) })) : null,
      this.renderFirings(t("guards.firings_in_failing_trajectories"), firings, false),
      this.renderFirings(t("guards.false_alarms_in_passing"), firings, true),
      h("div", { class: "actions" }, store),
      renderNote(t("guards.a_stored_backtest_allows")),
    ];
  }

  renderFirings(title, firings, succeeded) {
    const found = firings.filter(
      (firing) => Boolean(firing.succeeded) === succeeded && !(succeeded && firing.mistake_followed),
    );
    if (!found.length) return null;
    const rest = found.length - SHOWN;
    const lines = found.slice(0, SHOWN).map(({ trajectory_id: id, step, content_hash: content }) =>
      h(
        "li",
        null,
        h(
          "a",
          { href: formatLink(["trajectories", this.dataset, id], { content, step }) },
          t("guards.step_of_trajectory", { step, id }),
        ),
      ),
    );
    return [
      h("h3", null, title),
      h("ul", { class: "plain" }, lines),
      rest > 0 ? renderNote(t("trajectories.and_more", { rest: formatCount(rest) })) : null,
    ];
  }

  async store() {
    await runChange(
      () => storeBacktest(this.dataset, this.expression.value.trim()),
      ({ highest_mode: mode }) => t("guards.the_backtest_is_stored", { mode: formatEnum(mode, "TARGET_MODE_") }),
    );
  }

  async save(target) {
    if (this.isTooLong(target.expression)) return;
    const { bullet_id: id } = this.guard;
    const reason = this.reason.value.trim();
    const lesson = { content: this.lesson.value.trim(), section: this.section.value.trim() };
    const delta = id
      ? { type: "DELTA_TYPE_UPDATE", bullet_id: id, target }
      : { type: "DELTA_TYPE_ADD", ...lesson, target };
    try {
      const done = await applyDelta(this.dataset, delta, reason, id ? this.revision : undefined);
      showToast(describeEdit(this.dataset, done));
      this.saved(done.operations[0].bullet_id || id, done.revision);
    } catch (error) {
      logUnexpectedError(error);
      this.showFault(error.reason === "TARGET_INVALID" ? `${t("guards.target")}: ${error.message}` : error.message);
    }
  }
}

const renderHeading = () => h("h2", null, t("guards.backtest_on_the_archive"));
const renderNote = (text) => h("p", { class: "muted" }, text);
const formatBound = (share) => (share < 0.1 ? `${(100 * share).toFixed(1)} %` : formatPercent(share));
