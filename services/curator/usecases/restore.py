"""RestoreRevision: make the bullets and votes of an earlier revision current again, as a new revision."""

from __future__ import annotations

from services.curator.domain.errors import RevisionAhead
from services.curator.domain.log import Origin, SlotChange, invert_changes, merge_changes, require_revision
from services.curator.usecases.ports import DatasetTransaction


def restore(dataset: DatasetTransaction, revision: int, origin: Origin) -> list[SlotChange]:
    """Undo every change after `revision` and return the changes of the new revision.

    The undone revisions stay in the log, and the restoration can be undone in the same way. Raises RevisionAhead,
    RevisionErased, RevisionDropped.
    """
    if revision > dataset.revision:
        raise RevisionAhead(dataset.dataset, revision, dataset.revision)
    require_revision(dataset.dataset, revision, dataset.deleted_revision, dataset.first_revision)
    draft = dataset.create_draft()
    for change in merge_changes(invert_changes(dataset.list_changes_after(revision))):
        if change.before is None and change.after is not None:
            draft.bring_back(change.after)
        elif change.before is not None and change.after is None:
            draft.remove(change.before)
        elif change.before is not None and change.after is not None:
            draft.revert(change.before, change.after.bullet)
    # The bullets have their old counters again; their vote events follow.
    draft.withdrawn_ballots |= {ballot.key for ballot in dataset.list_ballots_since(revision)}
    draft.cast_ballots |= {ballot.key: ballot for ballot in dataset.list_ballots_withdrawn_since(revision)}
    return list(dataset.append(draft, origin, f"restored revision {revision}").changes)
