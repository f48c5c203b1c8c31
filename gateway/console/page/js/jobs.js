/** Jobs: progress, dead letters, and the list of earlier jobs. */

import { fillElement, h } from "./dom.js";
import { cancelJob, listDeadLetters, listJobs, retryJob, watchJob } from "./endpoints.js";
import { askInDialog } from "./dialog.js";
import { formatCount, formatPlural, readEnum } from "./format.js";
import { renderFacts, renderKey, renderState, renderTime } from "./parts.js";
import { formatLink } from "./router.js";
import { runChange, renderEmptyState, renderFailure, loadPart, renderLoading, logUnexpectedError } from "./states.js";
import { t } from "./texts.js";

const LATEST = 10;
const LETTERS = 50;
const readState = (job) => readEnum(job.state, "JOB_STATE_");

/** One job, followed until it has ended or until `leave()`. When it has ended, `ended()` is called. */
export class Job {
  constructor(dataset, id, signal, ended) {
    Object.assign(this, { dataset, id, ended, job: null, listed: -1, leaving: new AbortController() });
    this.signal = AbortSignal.any([signal, this.leaving.signal]);
    this.state = h("span", { role: "status" });
    this.live = h("span", null);
    this.body = h("div", null, renderLoading(3));
    this.letters = h("div", null);
    this.summary = h("summary", null);
    this.cancelling = h(
      "button",
      { type: "button", class: "danger end", hidden: true, onclick: () => this.cancel() },
      t("common.cancel"),
      renderKey("c"),
    );
    this.retrying = h("button", { type: "button", onclick: () => this.retry() }, t("jobs.retry_them"));
    this.element = h(
      "section",
      { class: "job card", "aria-label": t("jobs.job") },
      h("div", { class: "card-head" }, h("h2", null, t("jobs.job")), this.state, this.live, this.cancelling),
      this.body,
      this.letters,
    );
  }

  async follow() {
    const onState = (name) => fillElement(this.live, name === "reconnecting" ? renderState(name) : null);
    try {
      await watchJob(this.id, { signal: this.signal, onState, take: ({ job }) => this.render(job) });
      if (!this.signal.aborted) this.ended();
    } catch (error) {
      if (this.signal.aborted) return;
      logUnexpectedError(error);
      fillElement(
        this.body,
        error.status === 404
          ? renderEmptyState(t("jobs.no_such_job"), t("jobs.jobs_are_deleted_some_time"))
          : renderFailure(error, () => this.follow()),
      );
    }
  }

  /** Ends the stream of a job that is not shown any more. */
  leave() {
    this.leaving.abort();
  }

  render(job) {
    this.job = job;
    if (this.shown !== readState(job)) fillElement(this.state, renderState((this.shown = readState(job))));
    this.cancelling.hidden = readState(job) !== "running";
    this.retrying.hidden = !this.cancelling.hidden;
    fillElement(this.body, renderProgress(job), renderNumbers(this.dataset, job));
    fillElement(this.summary, formatPlural(job.dead, "dead letter"));
    // An open list stays unchanged while further trajectories become dead letters.
    const isRead = this.listed > 0 && job.dead > 0 && readState(job) === "running";
    if (job.dead !== this.listed && !isRead) this.renderDeadLetters(job.dead);
  }

  /** Lists the dead letters so far; an open list stays open. */
  async renderDeadLetters(dead) {
    this.listed = dead;
    if (!dead) return fillElement(this.letters);
    const container = h("div", null);
    const open = this.letters.querySelector("details")?.open ?? true;
    fillElement(this.letters, h("details", { open }, this.summary, container, this.retrying));
    await loadPart(
      container,
      this.signal,
      () => listDeadLetters(this.id, { page_size: LETTERS }, this.signal),
      (page) => this.renderTable(page),
    );
  }

  renderTable({ dead_letters: first, next_page_token: token }) {
    const rows = h("tbody", null, first.map(renderDeadLetter));
    const heads = ["#", t("common.trajectory"), t("jobs.reason"), t("jobs.attempts")].map((name) =>
      h("th", { scope: "col" }, name),
    );
    const table = h("table", { class: "table letters" }, h("thead", null, h("tr", null, heads)), rows);
    return h("div", null, h("div", { class: "wide" }, table), this.renderMoreButton(rows, token));
  }

  renderMoreButton(rows, token) {
    if (!token) return null;
    const next = async () => {
      const page = await runChange(() =>
        listDeadLetters(this.id, { page_size: LETTERS, page_token: token }, this.signal),
      );
      if (!page) return;
      rows.append(...page.dead_letters.map(renderDeadLetter));
      button.replaceWith(this.renderMoreButton(rows, page.next_page_token) ?? "");
    };
    const button = h("button", { type: "button", onclick: next }, t("common.show_more"));
    return button;
  }

  async cancel() {
    if (this.cancelling.hidden) return;
    await askInDialog({
      title: t("jobs.cancel_this_job"),
      text: t("jobs.waiting_trajectories_are_cancelled_learned"),
      confirm: t("common.cancel_it"),
      danger: true,
      act: () => cancelJob(this.id),
      done: ({ job }) => t("jobs.cancelled", { dropped: formatPlural(job.dropped, "trajectory") }),
    });
  }

  async retry() {
    if (await runChange(() => retryJob(this.id), t("jobs.retry_started"))) this.follow();
  }
}

const SHARES = ["learned", "dead", "dropped"];

function renderProgress(job) {
  const done = job.total - job.waiting;
  const width = (value) => ({ width: `${(100 * value) / Math.max(1, job.total)}%` });
  const props = {
    class: "job-bar",
    role: "progressbar",
    "aria-label": t("jobs.progress"),
    "aria-valuemin": 0,
    "aria-valuemax": job.total,
    "aria-valuenow": done,
  };
  return [
    h(
      "div",
      props,
      SHARES.map((name) => h("span", { class: name, style: width(job[name]) })),
    ),
    h("p", null, t("jobs.of", { done: formatCount(done), total: formatPlural(job.total, "trajectory") })),
  ];
}

function renderNumbers(dataset, job) {
  const revision = Number(job.revision)
    ? h("a", { href: formatLink(["playbooks", dataset, "history"], { revision: job.revision }) }, job.revision)
    : null;
  const some = (value) => (Number(value) ? formatCount(value) : null);
  return renderFacts([
    [t("common.learned"), formatCount(job.learned)],
    [t("jobs.no_new_lesson"), some(job.unchanged)],
    [t("common.waiting"), some(job.waiting)],
    [t("jobs.last_failure"), job.last_failure || null],
    [t("common.dead_letters"), some(job.dead)],
    [t("jobs.dropped"), some(job.dropped)],
    [t("common.edits"), formatCount(job.edits)],
    [t("common.votes"), some(job.votes)],
    [t("jobs.newest_revision"), revision],
    [t("jobs.submitted"), renderTime(job.created_at)],
    [t("common.ended"), renderTime(job.ended_at)],
  ]);
}

const renderDeadLetter = ({ index, trajectory_id: id, reason, code, message, attempts }) =>
  h(
    "tr",
    null,
    h("td", { class: "number" }, formatCount(index + 1)),
    h("td", { class: "mono" }, id || h("span", { class: "muted" }, t("jobs.no_id"))),
    h("td", null, h("span", { class: "mono" }, reason || code), h("div", { class: "text muted" }, message)),
    h("td", { class: "number" }, formatCount(attempts)),
  );

/** The latest jobs of a dataset, as links to each. */
export class Jobs {
  constructor(dataset, signal) {
    Object.assign(this, { dataset, signal });
    this.list = h("div", null);
    this.element = h(
      "section",
      { class: "narrow", "aria-label": t("jobs.jobs") },
      h("h2", null, t("jobs.jobs")),
      this.list,
    );
  }

  read() {
    return loadPart(
      this.list,
      this.signal,
      () => listJobs({ dataset: this.dataset, page_size: LATEST }, this.signal),
      ({ jobs: latest }) => this.draw(latest),
    );
  }

  draw(latest) {
    if (!latest.length) return h("p", { class: "muted" }, t("jobs.none_yet_several_trajectories_at"));
    return h(
      "ul",
      { class: "records plain" },
      latest.map((job) =>
        h(
          "li",
          null,
          h(
            "a",
            { class: "line", href: formatLink(["learn", this.dataset], { job: job.job_id }) },
            formatPlural(job.total, "trajectory"),
          ),
          job.dead ? h("span", { class: "bad" }, t("jobs.dead", { dead: formatCount(job.dead) })) : null,
          renderState(readState(job)),
          h("span", { class: "muted when" }, renderTime(job.created_at)),
        ),
      ),
    );
  }
}
