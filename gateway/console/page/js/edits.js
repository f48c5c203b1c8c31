/** The edits that a person makes by hand: remember, edit and forget a bullet, delete a dataset. */

import { askPerson } from "./dialog.js";
import { applyDelta, castVote, deleteDataset } from "./endpoints.js";
import { openRoute, reopenRoute } from "./router.js";
import { runChange } from "./states.js";

const why = { name: "reason", label: "Why", kind: "text" };
const createLessonField = (value) => ({ name: "content", label: "Lesson", kind: "long", required: true, value });

export async function addBullet(dataset) {
  const section = { name: "section", label: "Section", value: "strategies_and_hard_rules" };
  const answer = await askPerson({
    title: "Add a lesson",
    fields: [createLessonField(""), section, why],
    confirm: "Add",
  });
  if (answer) await applyEdit(dataset, { type: "DELTA_TYPE_ADD", ...answer }, answer.reason);
}

export async function editBullet(dataset, { id, content, updated_revision: base }) {
  const answer = await askPerson({ title: `Edit ${id}`, fields: [createLessonField(content), why], confirm: "Save" });
  if (answer) await applyEdit(dataset, { type: "DELTA_TYPE_UPDATE", bullet_id: id, ...answer }, answer.reason, base);
}

export async function deleteBullet(dataset, { id, content, updated_revision: base }) {
  const text = `${content} The history keeps it.`;
  const answer = await askPerson({ title: `Remove ${id}?`, text, fields: [why], confirm: "Remove", danger: true });
  if (answer) await applyEdit(dataset, { type: "DELTA_TYPE_DELETE", bullet_id: id }, answer.reason, base);
}

/** Asks for the reason of a vote, and casts it. A person's vote is no trajectory, so it gets an id of its own. */
export async function voteOnBullet(dataset, { id }, tag) {
  const isHelpful = tag === "VOTE_TAG_HELPFUL";
  const answer = await askPerson({
    title: isHelpful ? `Vote that ${id} helped` : `Vote that ${id} harmed`,
    text: "Search ranks bullets with helpful votes higher; harmful votes can retire a bullet.",
    fields: [why],
    confirm: "Vote",
  });
  if (!answer) return;
  const vote = { bullet_id: id, tag, trajectory_id: `console-${crypto.randomUUID()}`, reason: answer.reason };
  const done = await runChange(
    () => castVote(dataset, vote, answer.reason),
    ({ revision }) => `Your vote counts from revision ${revision}.`,
  );
  if (done) reopenRoute(["playbooks", dataset], { bullet: id });
}

/** Makes an earlier text of a bullet current again; a removed bullet is added with a new id. */
export async function restoreBullet(dataset, { id, section, content, updated_revision: base }, isRemoved) {
  const answer = await askPerson({
    title: isRemoved ? `Add ${id} again?` : `Restore this text of ${id}?`,
    text: content,
    fields: [why],
    confirm: isRemoved ? "Add again" : "Restore",
  });
  if (!answer) return;
  const delta = isRemoved
    ? { type: "DELTA_TYPE_ADD", section, content }
    : { type: "DELTA_TYPE_UPDATE", bullet_id: id, content };
  await applyEdit(dataset, delta, answer.reason, isRemoved ? undefined : base);
}

export async function deleteAfterConfirmation(dataset) {
  const typed = { name: "typed", label: `Type ${dataset} to confirm`, required: true, pattern: dataset };
  const answer = await askPerson({
    title: `Delete ${dataset}?`,
    text: "Its bullets, history, votes and pending changes are erased. This cannot be undone.",
    fields: [typed, why],
    confirm: "Delete",
    danger: true,
  });
  if (!answer) return;
  const done = await runChange(() => deleteDataset(dataset, answer.reason), `${dataset} is deleted.`);
  if (done) openRoute(["playbooks"]);
}

async function applyEdit(dataset, { reason: _, ...delta }, reason, base) {
  const done = await runChange(() => applyDelta(dataset, delta, reason, base), describeOutcome);
  const operation = done?.operations[0];
  if (operation)
    reopenRoute(["playbooks", dataset], delta.type === "DELTA_TYPE_DELETE" ? {} : { bullet: operation.bullet_id });
}

function describeOutcome({ revision, operations: [{ applied, bullet_id: id, skipped_reason: skipped }] }) {
  return applied ? `${id}: revision ${revision}.` : `Not applied: ${skipped}.`;
}
