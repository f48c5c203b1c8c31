"""Erase the stored data of deleted datasets: archive, trials, servings, decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from chassis.logging import get_logger

CLOCK_TOLERANCE = timedelta(seconds=5)
"""The clock of this service may be so far ahead of the one that dates deletions, while there is no new dataset."""

_log = get_logger(__name__)


class DatasetDeletion(NamedTuple):
    """The last deletion of a dataset; `is_replaced` if there is a new one of its name."""

    deleted_at: datetime
    is_replaced: bool


class DatasetDeletions(Protocol):
    """The service that stores the playbooks."""

    async def list_deletions(self) -> Mapping[str, DatasetDeletion]:
        """Return the last deletions of datasets, by name. Raises `HanseiError`."""


class DatasetEraser(Protocol):
    """Stores something of datasets."""

    async def erase(self, dataset: str, until: datetime) -> bool:
        """Delete the data of a dataset that was deleted at `until`; return whether there was any."""


class EraseDeletedDatasets:
    """Compares the stored data with the deletions of datasets. A dataset that is created again begins empty."""

    def __init__(self, source: DatasetDeletions, *erasers: DatasetEraser, now: Callable[[], datetime]) -> None:
        self._source = source
        self._now = now
        self._erasers = erasers
        self._erased: dict[str, datetime] = {}

    async def __call__(self) -> None:
        """Erase the data of newly deleted datasets. Raises the errors of the source and of the erasers."""
        for dataset, deletion in (await self._source.list_deletions()).items():
            until = deletion.deleted_at
            if not deletion.is_replaced and self._now() > until + CLOCK_TOLERANCE:
                until += CLOCK_TOLERANCE
            if dataset in self._erased and self._erased[dataset] >= until:
                continue
            if any([await eraser.erase(dataset, until) for eraser in self._erasers]):
                _log.info("data of a deleted dataset erased", dataset=dataset)
            self._erased[dataset] = until
