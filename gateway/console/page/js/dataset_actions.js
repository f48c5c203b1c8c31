/** What a person does with a whole dataset: import and export, policy, sections, deletion. */

import { Refusal } from "./api.js";
import { askInDialog, openDialog } from "./dialog.js";
import { h, saveFile } from "./dom.js";
import { deleteAfterConfirmation } from "./edits.js";
import { exportPlaybook, importPlaybook, listSections, readPolicy, writePolicy } from "./endpoints.js";
import { reopenRoute } from "./router.js";
import { runChange } from "./states.js";
import { t } from "./texts.js";

const CHUNK = 512 * 1024;
const MOST_BYTES = 10_000_000;
const FORMATS = [
  ["PLAYBOOK_FORMAT_JSON", "JSON"],
  ["PLAYBOOK_FORMAT_TEXT_COUNTED", t("dataset_actions.text_with_votes")],
  ["PLAYBOOK_FORMAT_TEXT_PLAIN", t("dataset_actions.plain_text")],
];
const REVIEW_MODES = [
  ["REVIEW_MODE_AUTO", t("dataset_actions.no_change_waits_for_review")],
  ["REVIEW_MODE_TIERED", t("dataset_actions.edits_removals_and_suspicious_lessons")],
  ["REVIEW_MODE_REVIEW", t("dataset_actions.every_change_waits")],
];
const DAY_SECONDS = 86_400;
/** The limits of the contract. */
const MOST_COUNT = 100_000;
const MOST_DAYS = 36_525;

/** Returns the actions as a menu that opens on demand. */
export function renderDatasetMenu(dataset, signal) {
  const item = (text, act, kind = "") => h("button", { type: "button", class: kind, onclick: act }, text);
  return h(
    "details",
    { class: "more" },
    h("summary", null, t("dataset_actions.dataset")),
    h(
      "div",
      { class: "actions menu" },
      item(t("dataset_actions.import_2"), () => importFile(dataset)),
      item(t("dataset_actions.export_2_2"), () => exportFile(dataset, signal)),
      item(t("dataset_actions.policy"), () => editPolicy(dataset, signal)),
      item(t("dataset_actions.sections"), () => showSections(dataset, signal)),
      item(t("dataset_actions.delete_dataset"), () => deleteAfterConfirmation(dataset), "danger"),
    ),
  );
}

async function importFile(dataset) {
  const done = await askInDialog({
    title: t("dataset_actions.import_into", { dataset }),
    text: t("dataset_actions.a_playbook_as_json_or"),
    fields: [
      { name: "file", label: t("dataset_actions.file"), kind: "file", required: true },
      { name: "replace", label: t("dataset_actions.replace_the_whole_playbook"), kind: "check" },
      { name: "reason", label: t("common.why") },
    ],
    confirm: t("dataset_actions.import"),
    act: async ({ file, replace, reason }) => importPlaybook(dataset, await encodeChunks(file), replace, reason),
    done: ({ added, updated, removed, revision }) =>
      t("dataset_actions.revision_added_updated_removed", { revision, added, updated, removed }),
  });
  if (done) reopenRoute(["playbooks", dataset]);
}

/** The bytes of a file as base64 texts, each small enough for a message. */
async function encodeChunks(file) {
  if (file.size > MOST_BYTES) throw new Refusal(t("dataset_actions.the_file_is_larger_than"));
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
  await askInDialog({
    title: t("dataset_actions.export", { dataset }),
    fields: [{ name: "format", label: t("common.format"), kind: "choice", options: FORMATS, value: FORMATS[0][0] }],
    confirm: t("dataset_actions.export_2"),
    act: async ({ format }) => {
      const chunks = await exportPlaybook(dataset, { format }, signal);
      const parts = chunks.map((chunk) => Uint8Array.from(atob(chunk), (letter) => letter.charCodeAt(0)));
      saveFile(new Blob(parts), `${dataset}.${format === FORMATS[0][0] ? "json" : "txt"}`);
      return chunks;
    },
  });
}

async function editPolicy(dataset, signal) {
  const found = await runChange(() => readPolicy(dataset, signal));
  if (!found) return;
  const { policy } = found;
  const days = policy.pending_lifetime ? Number.parseFloat(policy.pending_lifetime) / DAY_SECONDS : 30;
  const number = (name, label, value = "", limits) => ({ name, label, kind: "number", value, min: 0, ...limits });
  const count = { max: MOST_COUNT };
  const tokens = { max: Number.MAX_SAFE_INTEGER };
  const share = { max: 1, step: "any" };
  const lifetime = { min: 1 / DAY_SECONDS, max: MOST_DAYS, step: "any" };
  await askInDialog({
    title: t("dataset_actions.policy_of", { dataset }),
    fields: [
      { name: "mode", label: t("common.review"), kind: "choice", options: REVIEW_MODES, value: policy.review_mode },
      number("bullets", t("dataset_actions.most_active_bullets_0_default"), policy.max_bullets, count),
      number("tokens", t("dataset_actions.most_tokens_of_all_bullets"), policy.max_tokens, tokens),
      number("duplicates", t("dataset_actions.similarity_of_duplicates_0_to"), policy.duplicate_threshold, share),
      number("harmful", t("dataset_actions.harmful_votes_that_retire_a"), policy.retire_after_harmful, count),
      number("days", t("dataset_actions.days_after_which_a_pending"), days, lifetime),
    ],
    confirm: t("common.save"),
    act: (answer) => writePolicy(dataset, changePolicy(policy, answer)),
    done: t("dataset_actions.the_policy_is_saved"),
  });
}

const changePolicy = (policy, answer) => ({
  ...policy,
  review_mode: answer.mode,
  max_bullets: Number(answer.bullets || 0),
  max_tokens: String(answer.tokens || 0),
  duplicate_threshold: answer.duplicates === "" ? undefined : Number(answer.duplicates),
  retire_after_harmful: Number(answer.harmful || 0),
  pending_lifetime: `${Math.round(Number(answer.days || 30) * DAY_SECONDS)}s`,
});

async function showSections(dataset, signal) {
  const found = await runChange(() => listSections(dataset, signal));
  if (!found) return;
  const rows = found.sections.map(({ name, description }) =>
    h("div", null, h("dt", null, name), h("dd", null, description)),
  );
  const close = h("button", { type: "button", onclick: () => dialog.close() }, t("common.close"));
  const dialog = h(
    "dialog",
    { "aria-labelledby": "sections-title" },
    h("h2", { id: "sections-title" }, t("dataset_actions.sections_of", { dataset })),
    rows.length ? h("dl", { class: "facts" }, rows) : h("p", null, t("dataset_actions.the_sections_file_of_the")),
    h("div", { class: "actions" }, close),
  );
  openDialog(dialog);
}
