/** What people bring to learn from: pasted text or files, read by the gateway, which says what it recognised. */

import { ApiError } from "./api.js";
import { fill, h } from "./dom.js";
import { parseRuns } from "./endpoints.js";
import { plural } from "./format.js";
import { chip } from "./parts.js";
import { FORMATS, preview } from "./runs.js";
import { loading, report } from "./states.js";

const MOST_BYTES = 15_000_000;
const TYPING_MS = 350;

export class Sources {
  /** `changed(runs)` hears what there is to learn from: none while something is read or cannot be. */
  constructor(dataset, signal, changed) {
    Object.assign(this, { dataset, signal, changed, files: [], reading: Promise.resolve([]), turn: 0 });
    this.text = h("textarea", {
      rows: 10,
      class: "mono",
      spellcheck: "false",
      "aria-label": "Trajectories",
      placeholder: '[{"role": "user", "content": …}, {"role": "assistant", "tool_calls": […]}]',
      oninput: () => this.typed(),
    });
    this.format = h(
      "select",
      { "aria-label": "Format", onchange: () => this.again() },
      h("option", { value: "" }, "Any format"),
      Object.entries(FORMATS).map(([value, name]) => h("option", { value }, name)),
    );
    this.picker = h("input", {
      type: "file",
      multiple: true,
      class: "hidden-label",
      "aria-label": "Trajectory files",
      tabindex: "-1",
      onchange: () => (this.add(this.picker.files), (this.picker.value = "")),
    });
    this.found = h("div", { class: "found", role: "status" });
    this.element = h("div", null, this.text, this.found, this.picker);
  }

  /** The runs in what is there, once it is read; null if some of it cannot be. */
  async runs() {
    if (this.timer) this.again();
    let runs, reading;
    do {
      reading = this.reading;
      runs = await reading;
    } while (reading !== this.reading);
    return runs;
  }

  show(text) {
    this.files = [];
    this.text.value = text;
    this.again();
    this.text.focus();
    this.text.setSelectionRange(0, 0);
    this.text.scrollTop = 0;
  }

  add(files) {
    this.files.push(...files);
    this.again();
  }

  drop(file) {
    this.files = this.files.filter((each) => each !== file);
    this.again();
    if (!this.files.length) this.text.focus();
  }

  typed() {
    clearTimeout(this.timer);
    this.changed([]);
    this.timer = setTimeout(() => this.again(), TYPING_MS);
  }

  /** Reads everything anew; what was being read for an earlier state is forgotten. */
  again() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.turn += 1;
    this.text.hidden = this.files.length > 0;
    this.changed([]);
    this.reading = this.read(this.turn);
  }

  async read(turn) {
    const given = this.files.length ? this.files : this.text.value.trim() ? [new Blob([this.text.value])] : [];
    fill(this.found, given.length ? loading(2) : null);
    const read = [];
    for (const each of given) {
      read.push(await this.parsed(each));
      if (turn !== this.turn || this.signal.aborted) return null;
    }
    const runs = read.every(({ error }) => !error) ? read.flatMap(({ trajectories }) => trajectories) : null;
    fill(
      this.found,
      read.map((each) => this.told(each)),
      runs?.length ? preview(runs) : null,
    );
    this.changed(runs ?? []);
    return runs;
  }

  /** The content of one file or text, or why it cannot be parsed. */
  async parsed(file) {
    if (file.size > MOST_BYTES) return { file, error: new ApiError(413, { detail: "A file may have at most 15 MB." }) };
    try {
      const query = { dataset: this.dataset, format: this.format.value };
      const { trajectories, format } = await parseRuns(query, file, this.signal);
      if (!trajectories.length) return { file, error: new ApiError(400, { detail: "It contains no trajectory." }) };
      return { file, trajectories: trajectories.map((each) => this.here(each)), format };
    } catch (error) {
      if (!this.signal.aborted) report(error);
      return { file, error };
    }
  }

  /** A run is learned into the dataset of the page, whatever it was recorded for. */
  here(found) {
    return { ...found, trajectory: { ...found.trajectory, dataset: this.dataset } };
  }

  told({ file, trajectories, format, error }) {
    const name = file.name ? h("span", { class: "mono name" }, file.name) : null;
    const remove = file.name
      ? h("button", { type: "button", class: "quiet end", onclick: () => this.drop(file) }, "Remove")
      : null;
    const what = error
      ? [chip("not recognised", "state-bad"), h("span", { class: "bad text" }, error.message)]
      : [chip(FORMATS[format], "state-good"), h("span", { class: "muted" }, plural(trajectories.length, "trajectory"))];
    return h("div", { class: "source" }, name, what, remove, error ? attempts(error) : null);
  }
}

/** Why none of the formats fitted, each with its own reason. */
function attempts({ violations }) {
  if (!violations || violations.length < 2) return null;
  const reasons = violations.map(({ field, description }) => h("li", { class: "text" }, description || field));
  return h(
    "details",
    { class: "attempts" },
    h("summary", null, "Why no format matched"),
    h("ul", { class: "plain" }, reasons),
  );
}
