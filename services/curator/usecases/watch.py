"""WatchPlaybook: a dataset's revisions in order, those that exist and then each new one, without gap or repetition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from services.curator.domain.errors import RevisionAhead, WatcherTooFarBehind
from services.curator.domain.log import Revision
from services.curator.domain.playbook import checked_dataset
from services.curator.domain.snapshot import Snapshot
from services.curator.usecases.ports import PlaybookStore


class Feed(Protocol):
    """The revisions of all datasets as they are committed."""

    async def after(self, dataset: str, revision: int) -> Sequence[Revision]:
        """Some revisions right after `revision`, oldest first, without gap; [] when there is none yet."""
        ...

    async def wait(self, dataset: str, revision: int, seconds: float) -> bool:
        """Waits until the dataset has a revision after `revision`; False when `seconds` passed without one."""
        ...

    def head(self, dataset: str) -> int:
        """The newest revision known."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Nothing new: all revisions up to this one were sent."""

    revision: int


class Watch:
    """Watches datasets. `progress_seconds` is how often a quiet feed shows that it is alive; `patience` how many
    revisions a consumer that was up to date may fall behind before it is told to resume."""

    def __init__(self, store: PlaybookStore, feed: Feed, progress_seconds: float, patience: int) -> None:
        self._store = store
        self._feed = feed
        self._progress_seconds = progress_seconds
        self._patience = patience

    async def events(
        self, dataset: str, from_revision: int, *, snapshot: bool
    ) -> AsyncIterator[Snapshot | Revision | Progress]:
        """First the snapshot if asked for, then every later revision, and Progress while there is none.

        Errors: RevisionAhead for a start beyond the newest revision; WatcherTooFarBehind.
        """
        current = await self._store.load(checked_dataset(dataset))
        if from_revision > current.revision:
            raise RevisionAhead(dataset, from_revision, current.revision)
        cursor = from_revision
        if snapshot:
            yield current
            cursor = current.revision
        was_up_to_date = False
        while True:
            revisions = await self._feed.after(dataset, cursor)
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
        behind = self._feed.head(dataset) - cursor
        if behind > self._patience:
            raise WatcherTooFarBehind(
                f'the watcher of dataset "{dataset}" is {behind} revisions behind: resume from revision {cursor},'
                " or with a snapshot",
                metadata={"resume_from_revision": str(cursor), "behind": str(behind)},
            )
