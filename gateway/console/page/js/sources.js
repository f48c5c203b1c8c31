/** The sources of trajectories: pasted text or files. The gateway parses them and reports their format. */

import { ApiError } from "./api.js";
import { fillElement, h } from "./dom.js";
import { parseTrajectories } from "./endpoints.js";
import { formatPlural } from "./format.js";
import { renderChip } from "./parts.js";
import { FORMATS, renderPreview, replaceDataset } from "./trajectories.js";
import { renderLoading, logUnexpectedError } from "./states.js";
import { t } from "./texts.js";

const MOST_BYTES = 15_000_000;
const TYPING_MS = 350;

export class Sources {
  /** Calls `onChange(trajectories)` with the trajectories to learn: none while a file is read or has an error. */
  constructor(dataset, signal, onChange) {
    Object.assign(this, { dataset, signal, onChange, files: [], reading: Promise.resolve([]), turn: 0 });
    this.text = h("textarea", {
      rows: 10,
      class: "mono",
      spellcheck: "false",
      "aria-label": t("common.trajectories"),
      placeholder: '[{"role": "user", "content": …}, {"role": "assistant", "tool_calls": […]}]',
      oninput: () => this.onTyping(),
    });
    this.format = h(
      "select",
      { "aria-label": t("common.format"), onchange: () => this.readAll() },
      h("option", { value: "" }, t("sources.any_format")),
      Object.entries(FORMATS).map(([value, name]) => h("option", { value }, name)),
    );
    this.picker = h("input", {
      type: "file",
      multiple: true,
      class: "hidden-label",
      "aria-label": t("sources.trajectory_files"),
      tabindex: "-1",
      onchange: () => (this.add(this.picker.files), (this.picker.value = "")),
    });
    this.found = h("div", { class: "found", role: "status" });
    this.element = h("div", null, this.text, this.found, this.picker);
  }

  /** Returns the trajectories of all sources when they are parsed; null if one has an error. */
  async readTrajectories() {
    if (this.timer) this.readAll();
    let trajectories, reading;
    do {
      reading = this.reading;
      trajectories = await reading;
    } while (reading !== this.reading);
    return trajectories;
  }

  show(text) {
    this.files = [];
    this.text.value = text;
    this.readAll();
    this.text.focus();
    this.text.setSelectionRange(0, 0);
    this.text.scrollTop = 0;
  }

  add(files) {
    this.files.push(...files);
    this.readAll();
  }

  drop(file) {
    this.files = this.files.filter((other) => other !== file);
    this.readAll();
    if (!this.files.length) this.text.focus();
  }

  onTyping() {
    clearTimeout(this.timer);
    this.onChange([]);
    this.timer = setTimeout(() => this.readAll(), TYPING_MS);
  }

  /** Reads all sources again and discards the results of earlier reads. */
  readAll() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.turn += 1;
    this.text.hidden = this.files.length > 0;
    this.onChange([]);
    this.reading = this.read(this.turn);
  }

  async read(turn) {
    const inputs = this.files.length ? this.files : this.text.value.trim() ? [new Blob([this.text.value])] : [];
    fillElement(this.found, inputs.length ? renderLoading(2) : null);
    const read = [];
    for (const input of inputs) {
      read.push(await this.parseFile(input));
      if (turn !== this.turn || this.signal.aborted) return null;
    }
    const trajectories = read.every(({ error }) => !error) ? read.flatMap(({ trajectories }) => trajectories) : null;
    fillElement(
      this.found,
      read.map((input) => this.describe(input)),
      trajectories?.length ? renderPreview(trajectories) : null,
    );
    this.onChange(trajectories ?? []);
    return trajectories;
  }

  /** Returns the trajectories of one file or text, or the error that parsing it gives. */
  async parseFile(file) {
    if (file.size > MOST_BYTES) return { file, error: new ApiError(413, { detail: t("sources.a_file_may_have_at") }) };
    try {
      const query = { dataset: this.dataset, format: this.format.value };
      const { trajectories, format } = await parseTrajectories(query, file, this.signal);
      if (!trajectories.length)
        return { file, error: new ApiError(400, { detail: t("sources.it_contains_no_trajectory") }) };
      return { file, trajectories: trajectories.map((found) => replaceDataset(found, this.dataset)), format };
    } catch (error) {
      if (!this.signal.aborted) logUnexpectedError(error);
      return { file, error };
    }
  }

  describe({ file, trajectories, format, error }) {
    const name = file.name ? h("span", { class: "mono name" }, file.name) : null;
    const remove = file.name
      ? h("button", { type: "button", class: "quiet end", onclick: () => this.drop(file) }, t("common.remove"))
      : null;
    const what = error
      ? [renderChip(t("sources.not_recognised"), "state-bad"), h("span", { class: "bad text" }, error.message)]
      : [
          renderChip(FORMATS[format], "state-good"),
          h("span", { class: "muted" }, formatPlural(trajectories.length, "trajectory")),
        ];
    return h("div", { class: "source" }, name, what, remove, error ? renderAttempts(error) : null);
  }
}

/** Shows the reason against each format. */
function renderAttempts({ violations }) {
  if (!violations || violations.length < 2) return null;
  const reasons = violations.map(({ field, description }) => h("li", { class: "text" }, description || field));
  return h(
    "details",
    { class: "attempts" },
    h("summary", null, t("sources.why_no_format_matched")),
    h("ul", { class: "plain" }, reasons),
  );
}
