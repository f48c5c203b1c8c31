"""The curator's own errors. Each reason is stable and reaches the client as the same class.

InvalidDatasetName, InvalidBullet, InvalidPolicy, UnreadablePlaybook   InvalidArgument
RevisionNotFound, BulletNotFound, PendingChangeNotFound                NotFound
RevisionAhead                                                          OutOfRange
PendingChangeDecided, NotWritableAsText                                FailedPrecondition
WatcherTooFarBehind                                                    Aborted
SimilarityUnavailable                                                  Unavailable

Those of the store are `libs.storage.errors`.
"""

from __future__ import annotations

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

RETRY_AFTER_SECONDS = 1.0


class InvalidDatasetName(InvalidArgument):
    """A dataset name outside ``[A-Za-z0-9_-]+`` (C-13)."""

    reason = "INVALID_DATASET_NAME"

    def __init__(self, name: str) -> None:
        message = f"Invalid dataset name: '{shorten(name)}'"
        super().__init__(message, violations=[Violation("dataset", message, "C-13")])


class InvalidBullet(InvalidArgument):
    """A bullet or delta breaks a bound; nothing of its request was written."""

    reason = "INVALID_BULLET"

    def __init__(self, field: str, description: str) -> None:
        super().__init__(f"{field}: {description}", violations=[Violation(field, description)])


class InvalidPolicy(InvalidArgument):
    """A dataset policy with a value out of its range."""

    reason = "INVALID_POLICY"


class UnreadablePlaybook(InvalidArgument):
    """Imported text is not a playbook in the named form; the message names line or field."""

    reason = "UNREADABLE_PLAYBOOK"


class RevisionAhead(OutOfRange):
    """A revision beyond the newest one was asked for."""

    reason = "REVISION_AHEAD"

    def __init__(self, dataset: str, revision: int, head: int) -> None:
        super().__init__(
            f'dataset "{dataset}" has no revision {revision}: its newest is {head}',
            metadata={"dataset": dataset, "revision": str(revision), "head_revision": str(head)},
        )


class BulletNotFound(NotFound):
    """No bullet with this id was ever in the dataset."""

    reason = "BULLET_NOT_FOUND"


class PendingChangeNotFound(NotFound):
    """No pending change with this id."""

    reason = "PENDING_CHANGE_NOT_FOUND"


class PendingChangeDecided(FailedPrecondition):
    """The pending change was approved, rejected or has expired already."""

    reason = "PENDING_CHANGE_DECIDED"


class NotWritableAsText(FailedPrecondition):
    """A bullet the text dialects cannot hold; the JSON form can."""

    reason = "NOT_WRITABLE_AS_TEXT"


class WatcherTooFarBehind(Aborted):
    """A watcher fell further behind than the feed allows; it resumes from the revision in the metadata."""

    reason = "WATCHER_TOO_FAR_BEHIND"


class SimilarityUnavailable(Unavailable):
    """The embedding model, by whose vectors lessons are compared, does not answer; nothing was changed."""

    reason = "SIMILARITY_UNAVAILABLE"

    def __init__(self, cause: str) -> None:
        self.cause = cause
        super().__init__(
            f"lessons cannot be compared: {cause}; CURATION_SIMILARITY=words does without an embedding model",
            retry_after=RETRY_AFTER_SECONDS,
        )
