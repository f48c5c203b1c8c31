"""WatchPlaybook: yield the revisions of a dataset in order, old ones and then new ones, without gap or repetition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from services.curator.domain.errors import RevisionAhead, WatcherTooFarBehind
from services.curator.domain.log import Revision, RevisionKind
from services.curator.domain.playbook import validate_dataset_name
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.ports import Feed, PlaybookStore

LOADS_AT_ONCE = 2
"""Watchers whose playbook is read at once; the other readers of the store are left to other calls."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign of life of a feed that has sent all revisions up to this one."""

    revision: int


class Watch:
    """Watches datasets.

    `progress_seconds` is the time after which a quiet feed yields Progress; `max_lag` is the number of revisions that a
    consumer may fall behind after it was up to date.
    """

    def __init__(self, store: PlaybookStore, feed: Feed, progress_seconds: float, max_lag: int) -> None:
        self._store = store
        self._feed = feed
        self._progress_seconds = progress_seconds
        self._max_lag = max_lag
        self._loading = asyncio.Semaphore(LOADS_AT_ONCE)

    async def load(self, dataset: str) -> Snapshot:
        """Return the dataset at its newest revision."""
        async with self._loading:
            return await self._store.load(dataset)

    async def events(
        self,
        dataset: str,
        from_revision: int,
        *,
        snapshot: bool,
        from_committed_at: datetime | None = None,
        allow_missing: bool = True,
    ) -> AsyncIterator[Snapshot | Revision | Progress]:
        """Yield the snapshot if requested, then every later revision, and Progress while there is none.

        If `from_revision` was not committed at `from_committed_at`, the store was replaced, and a snapshot comes first.
        Raises DatasetNotFound unless `allow_missing`, RevisionAhead for a start after the newest revision,
        WatcherTooFarBehind.
        """
        if not allow_missing:
            await self._store.require(dataset)
        position = await self._store.find_position(validate_dataset_name(dataset), from_revision)
        is_resumed = from_committed_at is not None and from_committed_at == position.committed_at
        snapshot = snapshot or (from_committed_at is not None and not is_resumed)
        if from_revision > position.newest and not snapshot:
            raise RevisionAhead(dataset, from_revision, position.newest)
        cursor = max(from_revision, position.deleted_revision - 1)
        if snapshot or cursor < position.first_revision - 1:  # revisions after the cursor are no longer in the log
            current = await self.load(dataset)
            yield current
            cursor = current.revision
        elif is_resumed:
            yield Progress(cursor)
        was_up_to_date = False
        while True:
            revisions = await self._feed.list_revisions_after(dataset, cursor)
            if revisions and revisions[0].number > cursor + 1 and revisions[0].origin.kind is not RevisionKind.DELETE:
                current = await self.load(dataset)  # the revisions in between were dropped from the log
                yield current
                cursor = current.revision
                continue
            for revision in revisions:
                yield revision
                cursor = revision.number
                if was_up_to_date:
                    self._check_lag(dataset, cursor)
            if not revisions:
                was_up_to_date = True
                if not await self._feed.wait(dataset, cursor, self._progress_seconds):
                    yield Progress(cursor)

    def _check_lag(self, dataset: str, cursor: int) -> None:
        behind = self._feed.get_head(dataset) - cursor
        if behind > self._max_lag:
            raise WatcherTooFarBehind(
                f'the watcher of dataset "{dataset}" is {behind} revisions behind: resume from revision {cursor},'
                " or with a snapshot",
                metadata={"resume_from_revision": str(cursor), "behind": str(behind)},
            )
