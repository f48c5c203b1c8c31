"""Errors of the archive that cross its boundary, each with its reason."""

from __future__ import annotations

from datetime import datetime

from chassis.errors import InvalidArgument, NotFound, ResourceExhausted, Unavailable, Violation, shorten

FULL_RETRY_SECONDS = 30.0
OBJECT_STORE_RETRY_SECONDS = 5.0


class ArchiveNotFound(NotFound):
    """Nothing was ever stored for the dataset."""

    reason = "ARCHIVE_NOT_FOUND"

    def __init__(self, dataset: str) -> None:
        super().__init__(
            f"dataset '{dataset}' has no archived trajectories: they are stored when they are learned or reported"
        )


class TrajectoryNotFound(NotFound):
    """The dataset has no trajectory with this id."""

    reason = "TRAJECTORY_NOT_FOUND"

    def __init__(self, dataset: str, trajectory_id: str) -> None:
        super().__init__(f"the archive of dataset '{dataset}' has no trajectory '{shorten(trajectory_id)}'")


class TrajectoryDeleted(NotFound):
    """The trajectory was deleted; its tombstone has the time."""

    reason = "TRAJECTORY_DELETED"

    def __init__(self, dataset: str, trajectory_id: str, deleted_at: datetime) -> None:
        time = f"{deleted_at:%Y-%m-%d %H:%M} UTC"
        super().__init__(f"trajectory '{shorten(trajectory_id)}' of dataset '{dataset}' was deleted at {time}")


class ArchiveFull(ResourceExhausted):
    """The archive has no space for a further trajectory; nothing was stored."""

    reason = "ARCHIVE_FULL"

    def __init__(self, stored: int, size: int, limit: int) -> None:
        super().__init__(
            f"the archive is full: it stores {stored:,} bytes, the trajectory has {size:,}, and the limit is {limit:,}"
            " (HANSEI_EVIDENCE_ARCHIVE_MAX_BYTES). Raise the limit, shorten the retention of datasets, or delete some",
            retry_after=FULL_RETRY_SECONDS,
        )


class ObjectStoreUnavailable(Unavailable):
    """The object store with the large bodies does not answer; nothing was stored."""

    reason = "OBJECT_STORE_UNAVAILABLE"

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"the object store of the archive does not answer ({detail}): nothing was stored or read",
            retry_after=OBJECT_STORE_RETRY_SECONDS,
        )


class TrajectoryRefused(InvalidArgument):
    """The trajectory breaks a rule of the archive."""

    reason = "TRAJECTORY_REFUSED"

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field} {rule}", violations=[Violation(field, rule)])
