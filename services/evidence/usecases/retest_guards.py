"""Test guards again as trajectories are archived, and demote those whose false alarms show."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chassis.errors import HanseiError
from chassis.logging import get_logger
from chassis.targets.guard import CallGuard
from libs.guards.backtest import Backtest, backtest
from libs.guards.guard_trajectory import GuardTrajectory
from services.evidence.domain.guard_modes import limit_mode
from services.evidence.domain.stored_backtest import Demotion, demote
from services.evidence.usecases.backtest_archive import BacktestArchive
from services.evidence.usecases.guard_ports import GuardSource, GuardStore
from services.evidence.usecases.guard_trial_ports import GuardTrialStore

_log = get_logger(__name__)


class RetestGuards:
    """Adds newly archived trajectories to stored backtests; a pinned mode is never touched."""

    def __init__(
        self, source: GuardSource, store: GuardStore, trials: GuardTrialStore, archive: BacktestArchive
    ) -> None:
        self._source = source
        self._store = store
        self._trials = trials
        self._archive = archive

    async def __call__(self) -> None:
        """Test the guards of datasets whose archive has grown. Raises HanseiError if the store is unavailable."""
        for dataset, newest in await self._store.list_grown_archives():
            try:
                await self._retest(dataset, newest)
            except HanseiError as error:
                _log.warning("guards not tested again; trying again later", dataset=dataset, error=str(error))

    async def _retest(self, dataset: str, newest: int) -> None:
        found = await self._source.find(dataset)
        guards = {guard.target.source: guard for guard in found.guards}
        outdated = await self._store.find_outdated_backtests(dataset, list(guards), newest)
        results = dict.fromkeys(outdated, Backtest())
        if outdated:
            oldest = min(stored.archived_number for stored in outdated.values())
            async for number, trajectory in self._archive.read_since(dataset, oldest, newest):
                later = [guards[source] for source, stored in outdated.items() if number > stored.archived_number]
                for source, result in (await asyncio.to_thread(_test, later, trajectory)).items():
                    results[source] = results[source].add(result)
        tested = [guard for guard in found.guards if guard.target.source in outdated]
        before = await self._store.find_allowed_modes(dataset, tested) if tested else {}
        updated = await self._store.add_to_backtests(dataset, outdated, results, newest)
        tested = [guard for guard in tested if guard.target.source in updated]
        after = await self._store.find_allowed_modes(dataset, tested) if tested else {}
        demotions: list[Demotion] = []
        for guard in tested:
            source = guard.target.source
            if guard.bullet_id in found.pinned:
                continue
            in_effect = limit_mode(guard, found.pinned, before).mode
            if made := demote(guard.bullet_id, source, in_effect, after[guard.bullet_id].highest, updated[source]):
                demotions.append(made)
        if demotions:
            await self._trials.demote(dataset, demotions)
            for made in demotions:
                _log.info("guard demoted", dataset=dataset, bullet=made.bullet_id, reason=made.reason)


def _test(guards: Sequence[CallGuard], trajectory: GuardTrajectory) -> dict[str, Backtest]:
    """Return the backtests of guards on one trajectory, by target."""
    return {guard.target.source: backtest(guard.target, [trajectory]) for guard in guards}
