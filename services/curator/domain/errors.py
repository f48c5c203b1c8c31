"""The errors of the curator; their reasons are part of the contract.

InvalidDatasetName, InvalidBullet, InvalidPolicy, UnreadablePlaybook,
ResponseTooLarge                                                       InvalidArgument
DatasetNotFound, BulletNotFound, PendingChangeNotFound                 NotFound
RevisionAhead, RevisionErased                                          OutOfRange
PendingChangeDecided, NotWritableAsText, DatasetDeleted                FailedPrecondition
WatcherTooFarBehind                                                    Aborted
SimilarityUnavailable                                                  Unavailable
"""

from __future__ import annotations

from collections.abc import Sequence

from chassis.errors import (
    Aborted,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    OutOfRange,
    Unavailable,
    Violation,
    shorten,
)
from chassis.field_errors import DATASET_NAME_RULE

RETRY_AFTER_SECONDS = 1.0


class InvalidDatasetName(InvalidArgument):
    """A dataset name outside ``[A-Za-z0-9_-]+`` (C-13)."""

    reason = "INVALID_DATASET_NAME"

    def __init__(self, name: str) -> None:
        violations = [Violation("dataset", f"dataset {DATASET_NAME_RULE}", "C-13")]
        super().__init__(f"Invalid dataset name: '{shorten(name)}'", violations=violations)


class InvalidBullet(InvalidArgument):
    """A bullet or delta breaks a bound; nothing of its request was stored."""

    reason = "INVALID_BULLET"

    def __init__(self, field: str, description: str) -> None:
        super().__init__(f"{field}: {description}", violations=[Violation(field, description)])


class PinReasonMissing(InvalidArgument):
    """A delta pins a mode above SHADOW without a reason."""

    reason = "PIN_REASON_MISSING"

    def __init__(self, field: str) -> None:
        rule = "needs a reason, of the delta or of the request: a pinned mode above SHADOW holds without a backtest"
        super().__init__(f"{field} {rule}", violations=[Violation(field, rule)])


class InvalidPolicy(InvalidArgument):
    """A dataset policy with a value out of its range."""

    reason = "INVALID_POLICY"


class UnreadablePlaybook(InvalidArgument):
    """The imported text is not a playbook in its format; the message names line or field."""

    reason = "UNREADABLE_PLAYBOOK"


class RevisionAhead(OutOfRange):
    """The requested revision is newer than the newest one."""

    reason = "REVISION_AHEAD"

    def __init__(self, dataset: str, revision: int, head: int) -> None:
        super().__init__(
            f'dataset "{dataset}" has no revision {revision}: its newest is {head}',
            metadata={"dataset": dataset, "revision": str(revision), "head_revision": str(head)},
        )


class DatasetNotFound(NotFound):
    """The dataset has no revision, no pending change and no rules of its own."""

    reason = "DATASET_NOT_FOUND"

    def __init__(self, dataset: str, similar: Sequence[str]) -> None:
        names = ", ".join(similar)
        remedy = f"similar names: {names}" if names else "the first trajectory or import creates it"
        super().__init__(
            f'dataset "{dataset}" does not exist; {remedy}', metadata={"dataset": dataset, "similar": names}
        )


class RevisionErased(OutOfRange):
    """The revision is of a dataset that was deleted; a later one of the same name does not have it."""

    reason = "REVISION_ERASED"

    def __init__(self, dataset: str, revision: int, deleted_revision: int) -> None:
        super().__init__(
            f'revision {revision} of dataset "{dataset}" was erased: the dataset was deleted by revision'
            f" {deleted_revision}",
            metadata={"dataset": dataset, "revision": str(revision), "deleted_revision": str(deleted_revision)},
        )


class RevisionDropped(OutOfRange):
    """The revision is older than the retained log of its dataset."""

    reason = "REVISION_DROPPED"

    def __init__(self, dataset: str, revision: int, first_revision: int) -> None:
        super().__init__(
            f'revision {revision} of dataset "{dataset}" is no longer in the log (HANSEI_CURATOR_LOG_DAYS): the first'
            f" retained revision is {first_revision}",
            metadata={"dataset": dataset, "revision": str(revision), "first_revision": str(first_revision)},
        )


class DatasetDeleted(FailedPrecondition):
    """The dataset was deleted after the revision that a change is based on; nothing of the change was stored."""

    reason = "DATASET_DELETED"


class BulletNotFound(NotFound):
    """No bullet with this id was ever in the dataset."""

    reason = "BULLET_NOT_FOUND"


class PendingChangeNotFound(NotFound):
    """No pending change with this id."""

    reason = "PENDING_CHANGE_NOT_FOUND"


class PendingChangeDecided(FailedPrecondition):
    """The pending change is already approved, rejected or expired."""

    reason = "PENDING_CHANGE_DECIDED"


class ResponseTooLarge(InvalidArgument):
    """The response to a change would not fit a message; nothing was changed."""

    reason = "RESPONSE_TOO_LARGE"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the response would have {size:,} bytes, at most {limit:,} fit a message: send fewer changes at once",
            metadata={"bytes": str(size), "limit": str(limit)},
        )


class NotWritableAsText(FailedPrecondition):
    """The text dialects cannot hold this bullet; JSON can."""

    reason = "NOT_WRITABLE_AS_TEXT"


class WatcherTooFarBehind(Aborted):
    """A watcher is further behind than the feed allows; it can resume from the revision in the metadata."""

    reason = "WATCHER_TOO_FAR_BEHIND"


class SimilarityUnavailable(Unavailable):
    """The embedding model does not answer, so lessons cannot be compared; nothing was changed."""

    reason = "SIMILARITY_UNAVAILABLE"

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(
            f"lessons cannot be compared: {cause}; CURATION_SIMILARITY=words needs no embedding model",
            retry_after=RETRY_AFTER_SECONDS,
        )
