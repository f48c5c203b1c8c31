/** What a person does with a whole dataset: import and export, policy, sections, deletion. */

import { askPerson, openDialog } from "./dialog.js";
import { h, saveFile } from "./dom.js";
import { deleteAfterConfirmation } from "./edits.js";
import { exportPlaybook, importPlaybook, listSections, readPolicy, writePolicy } from "./endpoints.js";
import { reopenRoute } from "./router.js";
import { runChange } from "./states.js";

const CHUNK = 512 * 1024;
const MOST_BYTES = 10_000_000;
const FORMATS = [
  ["PLAYBOOK_FORMAT_JSON", "JSON"],
  ["PLAYBOOK_FORMAT_TEXT_COUNTED", "Text with votes"],
  ["PLAYBOOK_FORMAT_TEXT_PLAIN", "Plain text"],
];
const REVIEW_MODES = [
  ["REVIEW_MODE_AUTO", "No change waits for review"],
  ["REVIEW_MODE_TIERED", "Edits, removals and suspicious lessons wait"],
  ["REVIEW_MODE_REVIEW", "Every change waits"],
];
const DAY_SECONDS = 86_400;

/** Returns the actions as a menu that opens on demand. */
export function renderDatasetMenu(dataset, signal) {
  const item = (text, act, kind = "") => h("button", { type: "button", class: kind, onclick: act }, text);
  return h(
    "details",
    { class: "more" },
    h("summary", null, "Dataset…"),
    h(
      "div",
      { class: "actions menu" },
      item("Import…", () => importFile(dataset)),
      item("Export…", () => exportFile(dataset, signal)),
      item("Policy…", () => editPolicy(dataset, signal)),
      item("Sections…", () => showSections(dataset, signal)),
      item("Delete dataset…", () => deleteAfterConfirmation(dataset), "danger"),
    ),
  );
}

async function importFile(dataset) {
  const answer = await askPerson({
    title: `Import into ${dataset}`,
    text: "A playbook as JSON or as text with a line for each bullet; the format is detected.",
    fields: [
      { name: "file", label: "File", kind: "file", required: true },
      { name: "replace", label: "Replace the whole playbook", kind: "check" },
      { name: "reason", label: "Why" },
    ],
    confirm: "Import",
  });
  if (!answer?.file) return;
  const done = await runChange(
    async () => importPlaybook(dataset, await encodeChunks(answer.file), answer.replace, answer.reason),
    ({ added, updated, removed, revision }) =>
      `Revision ${revision}: ${added} added, ${updated} updated, ${removed} removed.`,
  );
  if (done) reopenRoute(["playbooks", dataset]);
}

/** The bytes of a file as base64 texts, each small enough for a message. */
async function encodeChunks(file) {
  if (file.size > MOST_BYTES) throw new Error("The file is larger than 10 MB; use hansei playbook import.");
  const bytes = new Uint8Array(await file.arrayBuffer());
  const chunks = [];
  for (let from = 0; from < bytes.length; from += CHUNK) {
    let text = "";
    for (const byte of bytes.subarray(from, from + CHUNK)) text += String.fromCharCode(byte);
    chunks.push(btoa(text));
  }
  return chunks;
}

async function exportFile(dataset, signal) {
  const answer = await askPerson({
    title: `Export ${dataset}`,
    fields: [{ name: "format", label: "Format", kind: "choice", options: FORMATS, value: FORMATS[0][0] }],
    confirm: "Export",
  });
  if (!answer) return;
  const chunks = await runChange(() => exportPlaybook(dataset, { format: answer.format }, signal));
  if (!chunks) return;
  const parts = chunks.map((chunk) => Uint8Array.from(atob(chunk), (letter) => letter.charCodeAt(0)));
  saveFile(new Blob(parts), `${dataset}.${answer.format === FORMATS[0][0] ? "json" : "txt"}`);
}

async function editPolicy(dataset, signal) {
  const found = await runChange(() => readPolicy(dataset, signal));
  if (!found) return;
  const { policy } = found;
  const days = policy.pending_lifetime ? Number.parseFloat(policy.pending_lifetime) / DAY_SECONDS : 30;
  const number = (name, label, value) => ({ name, label, kind: "number", min: "0", value: value ?? "" });
  const answer = await askPerson({
    title: `Policy of ${dataset}`,
    fields: [
      { name: "mode", label: "Review", kind: "choice", options: REVIEW_MODES, value: policy.review_mode },
      number("bullets", "Most active bullets (0: default)", policy.max_bullets),
      number("tokens", "Most tokens of all bullets (0: no limit)", policy.max_tokens),
      number("duplicates", "Similarity of duplicates, 0 to 1 (empty: equal texts only)", policy.duplicate_threshold),
      number("harmful", "Harmful votes that retire a bullet (0: never)", policy.retire_after_harmful),
      number("days", "Days after which a pending change expires", days),
    ],
    confirm: "Save",
  });
  if (!answer) return;
  const changed = {
    ...policy,
    review_mode: answer.mode,
    max_bullets: Number(answer.bullets || 0),
    max_tokens: String(answer.tokens || 0),
    duplicate_threshold: answer.duplicates === "" ? undefined : Number(answer.duplicates),
    retire_after_harmful: Number(answer.harmful || 0),
    pending_lifetime: `${Math.round(Number(answer.days || 30) * DAY_SECONDS)}s`,
  };
  await runChange(() => writePolicy(dataset, changed), "The policy is saved.");
}

async function showSections(dataset, signal) {
  const found = await runChange(() => listSections(dataset, signal));
  if (!found) return;
  const rows = found.sections.map(({ name, description }) =>
    h("div", null, h("dt", null, name), h("dd", null, description)),
  );
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h(
    "dialog",
    { "aria-labelledby": "sections-title" },
    h("h2", { id: "sections-title" }, `Sections of ${dataset}`),
    rows.length
      ? h("dl", { class: "facts" }, rows)
      : h("p", null, "The sections file of the server defines none for this dataset; bullets may be in any section."),
    h("div", { class: "actions" }, close),
  );
  openDialog(dialog);
}
