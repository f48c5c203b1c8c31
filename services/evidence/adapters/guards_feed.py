"""The guards of datasets, followed over the change feed of the curator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any

from chassis.errors import HanseiError, NotFound, Unavailable
from chassis.feed_retries import FeedRetries
from chassis.logging import get_logger
from chassis.targets.errors import InvalidTarget
from chassis.targets.guard import CallGuard, GuardIndex, GuardMode
from chassis.targets.target import Target
from hansei.playbook.v1 import playbook_pb2, playbook_service_pb2, playbook_service_pb2_grpc
from services.evidence.usecases.guard_ports import DatasetGuards

FIRST_GUARDS_SECONDS = 2.0
"""The time for which the first check of a dataset waits for its guards."""
UNUSED_SECONDS = 600.0
"""The time after the last check for which the playbook of a dataset is followed."""

_log = get_logger(__name__)


class GuardsFeed:
    """Follows the playbooks of the datasets that exist and are in use. `channel` is connected to the curator.

    Each other dataset takes no memory: anybody may ask for the guards of any name.
    """

    def __init__(self, channel: Any, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._playbooks = playbook_service_pb2_grpc.PlaybookServiceStub(channel)
        self._clock = clock
        self._followers: dict[str, _Follower] = {}

    async def find(self, dataset: str) -> DatasetGuards:
        """Return the guards of a dataset, those last read while the curator is unavailable; none of a missing dataset.

        Raises Unavailable.
        """
        follower = self._followers.get(dataset)
        if follower is None:
            follower = self._followers[dataset] = _Follower(dataset, self._playbooks)
            follower.task.add_done_callback(lambda _: self._followers.pop(dataset, None))
        follower.used_at = self._clock()
        return await follower.find()

    async def release_unused(self) -> None:
        """Stop following datasets that were not used for `UNUSED_SECONDS`."""
        since = self._clock() - UNUSED_SECONDS
        for follower in self._followers.values():
            if follower.used_at <= since:
                follower.task.cancel()

    async def close(self) -> None:
        """Stop following."""
        tasks = [follower.task for follower in self._followers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Follower:
    """Follows one playbook, until it does not exist or the task is cancelled."""

    used_at: float = 0.0

    def __init__(self, dataset: str, playbooks: Any) -> None:
        self._dataset = dataset
        self._playbooks = playbooks
        self._guards: DatasetGuards | None = None
        self._targets: dict[str, tuple[CallGuard, bool]] = {}
        self._is_known = asyncio.Event()
        self._retries = FeedRetries(_log)
        # An empty context: the deadline of the first check must not end the feed.
        self.task = asyncio.create_task(self._run(), name=f"guards of {dataset}", context=Context())

    async def find(self) -> DatasetGuards:
        if self._guards is None:
            try:
                async with asyncio.timeout(FIRST_GUARDS_SECONDS):
                    await self._is_known.wait()
            except TimeoutError:
                raise Unavailable(f'the playbook "{self._dataset}" could not be read from the curator') from None
        assert self._guards is not None
        return self._guards

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except NotFound:
                self._targets.clear()
                self._publish(0)
                return
            except HanseiError as error:
                self._retries.log_failure(
                    "reading the guards of a playbook failed; trying again", dataset=self._dataset, error=str(error)
                )
            await self._retries.pause()

    async def _follow(self) -> None:
        """Follow the playbook until the feed ends. Raises NotFound for a missing dataset, and other HanseiErrors."""
        request = playbook_service_pb2.WatchPlaybookRequest(dataset=self._dataset, snapshot=True)
        parts: list[playbook_pb2.Bullet] = []
        async for response in self._playbooks.WatchPlaybook(request):
            self._retries.reset()
            match response.WhichOneof("event"):
                case "snapshot":
                    parts.extend(response.snapshot.playbook.bullets)
                    if response.snapshot.last:
                        self._targets.clear()
                        for bullet in parts:
                            self._put(bullet)
                        parts = []
                        self._publish(response.snapshot.playbook.revision)
                case "revision":
                    self._apply(response.revision)
                case "progress" if self._guards is None:
                    self._publish(response.progress.revision)

    def _apply(self, revision: playbook_pb2.Revision) -> None:
        if revision.kind == playbook_pb2.REVISION_KIND_DELETE:
            self._targets.clear()
        for change in revision.changes:
            self._targets.pop(change.bullet_id, None)
            if change.HasField("after"):
                self._put(change.after)
        self._publish(revision.revision)

    def _put(self, bullet: playbook_pb2.Bullet) -> None:
        guard = build_guard(bullet)
        if guard is not None:
            self._targets[bullet.id] = (guard, bullet.target.pinned)

    def _publish(self, revision: int) -> None:
        guards = tuple(guard for guard, _ in self._targets.values())
        pinned = frozenset(guard.bullet_id for guard, is_pinned in self._targets.values() if is_pinned)
        self._guards = DatasetGuards(revision, guards, GuardIndex(guards), pinned)
        self._is_known.set()


def build_guard(bullet: playbook_pb2.Bullet) -> CallGuard | None:
    """Return the guard of a bullet; None without a target, for a retired bullet, and for one that does not compile."""
    if not bullet.target.expression or bullet.state == playbook_pb2.BULLET_STATE_RETIRED:
        return None
    try:
        target = Target(bullet.target.expression)
    except InvalidTarget as error:  # A curator of another version may know another vocabulary.
        _log.warning("target does not compile; it guards nothing", bullet=bullet.id, rule=error.rule)
        return None
    return CallGuard(bullet.id, target, GuardMode(bullet.target.mode), bullet.content)
