"""Synchronisation with the other gateways: revoked credentials, counts of calls, times of last use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.repetition import repeat
from gateway.access.domain.call_limits import CallLimits
from gateway.access.usecases.api_keys import ApiKeys
from gateway.access.usecases.ports import CallCountStore

log = get_logger("hansei.gateway.access")


class Synchronization:
    """Save the counts of this gateway and read those of the others, every `interval_seconds`."""

    def __init__(
        self,
        keys: ApiKeys,
        limits: CallLimits,
        counts: CallCountStore,
        cancel_revoked_calls: Callable[[], Awaitable[None]],
        interval_seconds: float,
    ) -> None:
        self._keys = keys
        self._limits = limits
        self._counts = counts
        self._cancel_revoked_calls = cancel_revoked_calls
        self._interval_seconds = interval_seconds

    async def run(self) -> None:
        """Synchronise for as long as the process lives; a database that fails is logged."""
        await repeat(self._interval_seconds, self.synchronize, first_pause=self._interval_seconds)

    async def try_once(self) -> None:
        """Synchronise before the process ends, and log a database that fails."""
        try:
            await self.synchronize()
        except HanseiError as error:
            log.warning("calls of credentials were not saved; other gateways miss them", error=error.message)

    async def synchronize(self) -> None:
        """End calls of revoked credentials, save last uses and counts, read the totals. Raises StoreUnavailable."""
        await self._cancel_revoked_calls()
        await self._keys.save_last_uses()
        day, counts = self._limits.take_unsaved_counts()
        try:
            totals = await self._counts.add_calls(day, counts)
        except HanseiError:
            self._limits.return_unsaved_counts(day, counts)
            raise
        self._limits.update_totals(day, totals)
