"""Erase the stored data of deleted datasets: archive, trials, servings, decisions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from chassis.logging import get_logger

_log = get_logger(__name__)


class DatasetDeletions(Protocol):
    """The service that stores the playbooks."""

    async def list_deletions(self) -> Mapping[str, datetime]:
        """Return when datasets were last deleted, by name. Raises `HanseiError`."""


class DatasetEraser(Protocol):
    """Stores something of datasets."""

    async def erase(self, dataset: str, until: datetime) -> bool:
        """Delete the data of a dataset that was deleted at `until`; return whether there was any."""


class EraseDeletedDatasets:
    """Compares the stored data with the deletions of datasets. A dataset that is created again begins empty."""

    def __init__(self, source: DatasetDeletions, *erasers: DatasetEraser) -> None:
        self._source = source
        self._erasers = erasers
        self._erased: dict[str, datetime] = {}

    async def __call__(self) -> None:
        """Erase the data of newly deleted datasets. Raises the errors of the source and of the erasers."""
        for dataset, deleted_at in (await self._source.list_deletions()).items():
            if self._erased.get(dataset) == deleted_at:
                continue
            if any([await eraser.erase(dataset, deleted_at) for eraser in self._erasers]):
                _log.info("data of a deleted dataset erased", dataset=dataset)
            self._erased[dataset] = deleted_at
