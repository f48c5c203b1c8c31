/** The edits that a person makes by hand: remember, edit and forget a bullet, delete a dataset. */

import { askInDialog } from "./dialog.js";
import { applyDelta, castVote, deleteDataset } from "./endpoints.js";
import { openRoute, reopenRoute } from "./router.js";
import { runChange } from "./states.js";
import { t } from "./texts.js";

/** The beginning of the ids under which people vote: their votes belong to no trajectory. */
export const PERSON = "console-";
const why = { name: "reason", label: t("common.why"), kind: "text" };
const createLessonField = (value) => ({
  name: "content",
  label: t("edits.lesson"),
  kind: "long",
  required: true,
  value,
});

export async function addBullet(dataset) {
  const section = { name: "section", label: t("common.section"), value: "strategies_and_hard_rules" };
  const answer = await askInDialog({
    title: t("edits.add_a_lesson"),
    fields: [createLessonField(""), section, why],
    confirm: t("common.add"),
  });
  if (answer) await applyEdit(dataset, { type: "DELTA_TYPE_ADD", ...answer }, answer.reason);
}

export async function editBullet(dataset, { id, content, updated_revision: base }) {
  const answer = await askInDialog({
    title: t("edits.edit", { id }),
    fields: [createLessonField(content), why],
    confirm: t("common.save"),
  });
  if (answer) await applyEdit(dataset, { type: "DELTA_TYPE_UPDATE", bullet_id: id, ...answer }, answer.reason, base);
}

export async function deleteBullet(dataset, { id, content, updated_revision: base }) {
  const text = t("edits.the_history_keeps_it", { content });
  const answer = await askInDialog({
    title: t("edits.remove", { id }),
    text,
    fields: [why],
    confirm: t("common.remove"),
    danger: true,
  });
  if (answer) await applyEdit(dataset, { type: "DELTA_TYPE_DELETE", bullet_id: id }, answer.reason, base);
}

/** Asks for the reason of a vote, and casts it. A person's vote is no trajectory, so it gets an id of its own. */
export async function voteOnBullet(dataset, { id }, tag) {
  const isHelpful = tag === "VOTE_TAG_HELPFUL";
  const answer = await askInDialog({
    title: isHelpful ? t("edits.vote_that_helped", { id }) : t("edits.vote_that_harmed", { id }),
    text: t("edits.search_ranks_bullets_with_helpful"),
    fields: [why],
    confirm: t("edits.vote"),
  });
  if (!answer) return;
  const vote = { bullet_id: id, tag, trajectory_id: PERSON + crypto.randomUUID(), reason: answer.reason };
  const done = await runChange(
    () => castVote(dataset, vote, answer.reason),
    ({ revision }) => t("edits.your_vote_counts_from_revision", { revision }),
  );
  if (done) reopenRoute(["playbooks", dataset], { bullet: id });
}

/** Makes an earlier text of a bullet current again; a removed bullet is added with a new id. */
export async function restoreBullet(dataset, { id, section, content, updated_revision: base }, isRemoved) {
  const answer = await askInDialog({
    title: isRemoved ? t("edits.add_again_2", { id }) : t("edits.restore_this_text_of", { id }),
    text: content,
    fields: [why],
    confirm: isRemoved ? t("edits.add_again") : t("common.restore"),
  });
  if (!answer) return;
  const delta = isRemoved
    ? { type: "DELTA_TYPE_ADD", section, content }
    : { type: "DELTA_TYPE_UPDATE", bullet_id: id, content };
  await applyEdit(dataset, delta, answer.reason, isRemoved ? undefined : base);
}

export async function deleteAfterConfirmation(dataset) {
  const typed = { name: "typed", label: t("edits.type_to_confirm", { dataset }), required: true, pattern: dataset };
  const answer = await askInDialog({
    title: t("edits.delete", { dataset }),
    text: t("edits.its_bullets_history_votes_and"),
    fields: [typed, why],
    confirm: t("common.delete"),
    danger: true,
  });
  if (!answer) return;
  const done = await runChange(() => deleteDataset(dataset, answer.reason), t("edits.is_deleted", { dataset }));
  if (done) openRoute(["playbooks"]);
}

async function applyEdit(dataset, { reason: _, ...delta }, reason, base) {
  const done = await runChange(() => applyDelta(dataset, delta, reason, base), describeOutcome);
  const operation = done?.operations[0];
  if (operation)
    reopenRoute(["playbooks", dataset], delta.type === "DELTA_TYPE_DELETE" ? {} : { bullet: operation.bullet_id });
}

function describeOutcome({ revision, operations: [{ applied, bullet_id: id, skipped_reason: skipped }] }) {
  return applied ? t("edits.revision", { id, revision }) : t("edits.not_applied", { skipped });
}
