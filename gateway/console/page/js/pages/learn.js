/**
 * Live learning of trajectories in the formats of other programs. One is shown stage by stage, several
 * become a job; the playbook's feed is followed beside it.
 */

import { renderDatasetChoice, renderDatasetTabs, lastDataset } from "../datasets.js";
import { fillElement, h } from "../dom.js";
import { learnTrajectory, submitJob } from "../endpoints.js";
import { Feed } from "../feed.js";
import { formatCount } from "../format.js";
import { Job, Jobs } from "../jobs.js";
import { bindKeys } from "../keys.js";
import { renderHead, renderKey } from "../parts.js";
import { noteQuery } from "../router.js";
import { EXAMPLE } from "../trajectories.js";
import { Sources } from "../sources.js";
import { Stages } from "../stages.js";
import { runChange, renderFailure, logUnexpectedError, showToast } from "../states.js";
import { t } from "../texts.js";

export const formatTitle = ({ dataset }) => t("learn.learn_into", { dataset });

export function openPage({ params: { dataset }, query, signal }) {
  lastDataset.name = dataset;
  const view = new Learning(dataset, signal);
  if (query.job) view.showJob(query.job);
  return [
    renderHead(dataset, renderDatasetChoice("learn", dataset, signal), renderDatasetTabs(dataset, t("common.learn"))),
    view.renderPage(),
  ];
}

class Learning {
  constructor(dataset, signal) {
    Object.assign(this, { dataset, signal, job: null });
    this.sources = new Sources(dataset, signal, (trajectories) => this.update(trajectories));
    this.truth = h("input", { autocomplete: "off" });
    this.truthField = h("label", { class: "field" }, t("learn.correct_answer_if_known"), this.truth);
    this.what = h("span", null, t("common.learn"));
    this.send = h("button", { class: "primary" }, this.what, renderKey("Ctrl ↵"));
    this.progress = h("div", { class: "narrow" });
    this.jobs = new Jobs(dataset, signal);
    bindKeys(
      [
        { keys: "/", what: t("learn.type_a_trajectory"), run: () => this.sources.text.focus() },
        { keys: "f", what: t("learn.choose_files_2"), run: () => this.sources.picker.click() },
        { keys: "c", what: t("learn.cancel_the_job"), run: () => this.job?.cancel() },
      ],
      signal,
    );
  }

  renderPage() {
    const feed = new Feed(this.dataset, this.signal);
    feed.follow();
    this.jobs.read();
    return h(
      "div",
      { class: "split learn" },
      h("div", { class: "scroll" }, this.renderForm(), this.progress, this.jobs.element),
      h("section", { class: "detail", "aria-label": t("common.feed") }, feed.element),
    );
  }

  renderForm() {
    const choose = h(
      "button",
      { type: "button", onclick: () => this.sources.picker.click() },
      t("learn.choose_files"),
      renderKey("f"),
    );
    const example = h(
      "button",
      { type: "button", class: "quiet", onclick: () => this.sources.show(JSON.stringify(EXAMPLE, null, 2)) },
      t("learn.fill_in_an_example"),
    );
    const form = h(
      "form",
      { class: "narrow drop" },
      h("p", { class: "muted" }, t("learn.paste_trajectories_of_an_agent")),
      this.sources.element,
      this.truthField,
      h("div", { class: "actions" }, this.send, choose, this.sources.format, example),
    );
    form.addEventListener("submit", (event) => (event.preventDefault(), this.learn()));
    form.addEventListener(
      "keydown",
      (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && form.requestSubmit(),
    );
    this.acceptDrops(form);
    return form;
  }

  acceptDrops(form) {
    // The browser itself inserts a text into a field, or moves it within one.
    const isForField = ({ target, dataTransfer: { items } }) =>
      target.matches("textarea, input") && ![...items].some(({ kind }) => kind === "file");
    form.addEventListener("dragover", (event) => {
      if (isForField(event)) return;
      event.preventDefault();
      form.classList.add("over");
    });
    form.addEventListener("dragleave", () => form.classList.remove("over"));
    form.addEventListener("drop", (event) => {
      form.classList.remove("over");
      if (isForField(event)) return;
      event.preventDefault();
      const { files } = event.dataTransfer;
      const text = event.dataTransfer.getData("text/plain");
      if (files.length) this.sources.add(files);
      else if (text) this.sources.show(text);
    });
  }

  /** Adapts the button and the fields to the trajectories that were found. */
  update(trajectories) {
    const many = trajectories.length > 1;
    fillElement(
      this.what,
      many ? t("learn.learn_from_trajectories", { length: formatCount(trajectories.length) }) : t("common.learn"),
    );
    this.truthField.hidden = many;
    this.truth.placeholder = trajectories.length === 1 ? trajectories[0].ground_truth : "";
  }

  async learn() {
    this.send.disabled = true;
    try {
      const trajectories = await this.sources.readTrajectories();
      if (!trajectories?.length)
        return showToast(
          trajectories ? t("learn.there_is_no_trajectory_yet") : t("learn.some_of_this_cannot_be"),
          "bad",
        );
      await (trajectories.length === 1 ? this.learnOne(trajectories[0]) : this.submitMany(trajectories));
    } finally {
      this.send.disabled = false;
    }
  }

  async learnOne(run) {
    const body = { ...run, dataset: this.dataset, ground_truth: this.truth.value || run.ground_truth };
    const stages = new Stages(this.dataset);
    this.leaveJob();
    noteQuery({ job: "" });
    fillElement(this.progress, stages.element);
    try {
      for await (const { data } of learnTrajectory(body, this.signal)) stages.addMessage(data);
    } catch (error) {
      if (this.signal.aborted) return;
      logUnexpectedError(error);
      fillElement(this.progress, renderFailure(error));
    }
  }

  async submitMany(trajectories) {
    const made = await runChange(() => submitJob(this.dataset, trajectories, this.signal));
    if (!made) return;
    noteQuery({ job: made.job.job_id });
    this.showJob(made.job.job_id);
    this.jobs.read();
  }

  leaveJob() {
    this.job?.leave();
    this.job = null;
  }

  showJob(id) {
    this.leaveJob();
    this.job = new Job(this.dataset, id, this.signal, () => this.jobs.read());
    fillElement(this.progress, this.job.element);
    this.job.follow();
  }
}
