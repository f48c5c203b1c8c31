/** The edits that a person makes by hand: remember, edit and forget a bullet, delete a dataset. */

import { askInDialog } from "./dialog.js";
import { h } from "./dom.js";
import { applyDelta, castVote, deleteDataset } from "./endpoints.js";
import { formatLink, openRoute, reopenRoute } from "./router.js";
import { t } from "./texts.js";

/** The beginning of the ids under which people vote: their votes belong to no trajectory. */
export const PERSON = "console-";
const why = { name: "reason", label: t("common.why"), kind: "text" };
const OUTCOMES = {
  DELTA_TYPE_ADD: (values) => t("edits.added_in_revision", values),
  DELTA_TYPE_UPDATE: (values) => t("edits.revision", values),
  DELTA_TYPE_DELETE: (values) => t("edits.removed_in_revision", values),
};
const createLessonField = (value) => ({
  name: "content",
  label: t("edits.lesson"),
  kind: "long",
  required: true,
  value,
});

export async function addBullet(dataset) {
  const section = { name: "section", label: t("common.section"), value: "strategies_and_hard_rules" };
  await askForEdit(dataset, {
    title: t("edits.add_a_lesson"),
    fields: [createLessonField(""), section, why],
    confirm: t("common.add"),
    createDelta: ({ content, section: name }) => ({ type: "DELTA_TYPE_ADD", content, section: name }),
  });
}

export async function editBullet(dataset, { id, content, updated_revision: base }) {
  await askForEdit(dataset, {
    title: t("edits.edit", { id }),
    fields: [createLessonField(content), why],
    confirm: t("common.save"),
    createDelta: ({ content: edited }) => ({ type: "DELTA_TYPE_UPDATE", bullet_id: id, content: edited }),
    base,
  });
}

export async function deleteBullet(dataset, { id, content, updated_revision: base }) {
  await askForEdit(dataset, {
    title: t("edits.remove", { id }),
    text: t("edits.the_history_keeps_it", { content }),
    confirm: t("common.remove"),
    danger: true,
    createDelta: () => ({ type: "DELTA_TYPE_DELETE", bullet_id: id }),
    base,
  });
}

/** Asks for the reason of a vote, and casts it. A person's vote is no trajectory, so it gets an id of its own. */
export async function voteOnBullet(dataset, { id }, tag) {
  const isHelpful = tag === "VOTE_TAG_HELPFUL";
  const voter = PERSON + crypto.randomUUID();
  const done = await askInDialog({
    title: isHelpful ? t("edits.vote_that_helped", { id }) : t("edits.vote_that_harmed", { id }),
    text: t("edits.search_ranks_bullets_with_helpful"),
    fields: [why],
    confirm: t("edits.vote"),
    act: ({ reason }) => castVote(dataset, { bullet_id: id, tag, trajectory_id: voter, reason }, reason),
    done: ({ revision }) => t("edits.your_vote_counts_from_revision", { revision }),
  });
  if (done) reopenRoute(["playbooks", dataset], { bullet: id });
}

/** Makes an earlier text of a bullet current again; a removed bullet is added with a new id. */
export async function restoreBullet(dataset, { id, section, content, updated_revision: base }, isRemoved) {
  await askForEdit(dataset, {
    title: isRemoved ? t("edits.add_again_2", { id }) : t("edits.restore_this_text_of", { id }),
    text: content,
    confirm: isRemoved ? t("edits.add_again") : t("common.restore"),
    createDelta: () =>
      isRemoved
        ? { type: "DELTA_TYPE_ADD", section, content }
        : { type: "DELTA_TYPE_UPDATE", bullet_id: id, content },
    base: isRemoved ? undefined : base,
  });
}

export async function deleteAfterConfirmation(dataset) {
  const typed = { name: "typed", label: t("edits.type_to_confirm", { dataset }), required: true, pattern: dataset };
  const done = await askInDialog({
    title: t("edits.delete", { dataset }),
    text: t("edits.its_bullets_history_votes_and"),
    fields: [typed, why],
    confirm: t("common.delete"),
    danger: true,
    act: ({ reason }) => deleteDataset(dataset, reason),
    done: t("edits.is_deleted", { dataset }),
  });
  if (done) openRoute(["playbooks"]);
}

/** Asks for the values of an edit of one bullet, applies it, and opens the bullet. */
async function askForEdit(dataset, { createDelta, base, fields = [why], ...dialog }) {
  const done = await askInDialog({
    ...dialog,
    fields,
    act: (values) => applyDelta(dataset, createDelta(values), values.reason, base),
    done: (response) => describeEdit(dataset, response),
  });
  if (!done) return;
  const [{ applied, delta, bullet_id: id }] = done.operations;
  const isRemoved = applied && delta.type === "DELTA_TYPE_DELETE";
  reopenRoute(["playbooks", dataset], { bullet: isRemoved ? "" : id || delta.bullet_id });
}

/** Says in which revision an edit is, or that it waits for review, with a link. */
export function describeEdit(dataset, { revision, operations: [{ delta, bullet_id: id }], pending }) {
  if (!pending.length) return OUTCOMES[delta.type]({ id, revision });
  const [{ review_reason: reason }] = pending;
  const link = h("a", { href: formatLink(["review", dataset]) }, t("common.review"));
  return [t("edits.waits_for_review", { reason }), link];
}
