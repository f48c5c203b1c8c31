/** The edits that a person makes by hand: remember, edit and forget a bullet, delete a dataset. */

import { ask } from "./dialog.js";
import { applyDelta, deleteDataset } from "./endpoints.js";
import { go, reopen } from "./router.js";
import { change } from "./states.js";

const why = { name: "reason", label: "Why", kind: "text" };
const lesson = (value) => ({ name: "content", label: "Lesson", kind: "long", required: true, value });

export async function remember(dataset) {
  const section = { name: "section", label: "Section", value: "strategies_and_hard_rules" };
  const answer = await ask({ title: "Remember a lesson", fields: [lesson(""), section, why], confirm: "Remember" });
  if (answer) await apply(dataset, { type: "DELTA_TYPE_ADD", ...answer }, answer.reason);
}

export async function edit(dataset, { id, content, updated_revision: base }) {
  const answer = await ask({ title: `Edit ${id}`, fields: [lesson(content), why], confirm: "Save" });
  if (answer) await apply(dataset, { type: "DELTA_TYPE_UPDATE", bullet_id: id, ...answer }, answer.reason, base);
}

export async function forget(dataset, { id, content, updated_revision: base }) {
  const text = `${content} The history keeps it.`;
  const answer = await ask({ title: `Forget ${id}?`, text, fields: [why], confirm: "Forget", danger: true });
  if (answer) await apply(dataset, { type: "DELTA_TYPE_DELETE", bullet_id: id }, answer.reason, base);
}

export async function deleteAfterConfirmation(dataset) {
  const typed = { name: "typed", label: `Type ${dataset} to confirm`, required: true, pattern: dataset };
  const answer = await ask({
    title: `Delete ${dataset}?`,
    text: "Its bullets, history, votes and pending changes are erased. This cannot be undone.",
    fields: [typed, why],
    confirm: "Delete",
    danger: true,
  });
  if (!answer) return;
  const done = await change(() => deleteDataset(dataset, answer.reason), `${dataset} is deleted.`);
  if (done) go(["playbooks"]);
}

async function apply(dataset, { reason: _, ...delta }, reason, base) {
  const done = await change(() => applyDelta(dataset, delta, reason, base), outcome);
  const operation = done?.operations[0];
  if (operation) reopen(["playbooks", dataset], delta.type === "DELTA_TYPE_DELETE" ? {} : { bullet: operation.bullet_id });
}

function outcome({ revision, operations: [{ applied, bullet_id: id, skipped_reason: skipped }] }) {
  return applied ? `${id}: revision ${revision}.` : `Not applied: ${skipped}.`;
}
