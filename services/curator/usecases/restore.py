"""RestoreRevision: an earlier revision's bullets and votes become current again, as a new revision."""

from __future__ import annotations

from services.curator.domain.errors import RevisionAhead
from services.curator.domain.log import Change, Origin, inverted, net
from services.curator.usecases.ports import DatasetTransaction


def restore(dataset: DatasetTransaction, revision: int, origin: Origin) -> list[Change]:
    """Undoes every change after `revision`; what that changed. Errors: RevisionAhead.

    History stays: the undone revisions are still in the log, and the restoration can be undone in the same way.
    """
    if revision > dataset.revision:
        raise RevisionAhead(dataset.dataset, revision, dataset.revision)
    draft = dataset.draft()
    for change in net(inverted(dataset.changes_after(revision))):
        if change.before is None and change.after is not None:
            draft.bring_back(change.after)
        elif change.before is not None and change.after is None:
            draft.remove(change.before)
        elif change.before is not None and change.after is not None:
            draft.turn_into(change.before, change.after.bullet)
    # The counters came back with the bullets; here the events that make them up follow.
    draft.withdrawn |= {(one.slot, one.trajectory, one.round) for one in dataset.ballots_since(revision)}
    draft.cast |= {(one.slot, one.trajectory, one.round): one for one in dataset.ballots_withdrawn_since(revision)}
    return list(dataset.append(draft, origin, f"restored revision {revision}").changes)
