"""Decide the modes of guards by the outcomes of sessions, and carry the decisions over to the playbook."""

from __future__ import annotations

import uuid

from cachetools import LRUCache

from chassis.errors import DeadlineExceeded, HanseiError, NotFound, Unavailable
from chassis.logging import get_logger
from chassis.targets.guard import GuardMode
from chassis.targets.target import Target
from services.evidence.usecases.backtest_archive import BacktestArchive
from services.evidence.usecases.check_call import limit_modes
from services.evidence.usecases.guard_ports import GuardSource, GuardStore
from services.evidence.usecases.guard_trial_ports import GuardEvaluation, GuardTrialStore, ModeEditor, NumberedDecision

MOST_AT_ONCE = 100
CACHED_TESTS = 10_000
"""Targets whose last backtest is remembered; a forgotten one is tested again."""
MORE_SESSIONS = 1.1
"""The growth of the passing sessions after which a backtest that allowed too little is run again."""
_NAMESPACE = uuid.UUID("0b4f6a34-5f5c-4a39-9be3-0d8b9f1f6c55")

_log = get_logger(__name__)


class GuardDecisions:
    """Promotes and demotes guards, each in a revision by the author `evidence`; a pinned mode is never touched."""

    def __init__(
        self,
        source: GuardSource,
        store: GuardStore,
        trials: GuardTrialStore,
        archive: BacktestArchive,
        playbooks: ModeEditor,
    ) -> None:
        self._source = source
        self._store = store
        self._trials = trials
        self._archive = archive
        self._playbooks = playbooks
        self._tested_at: LRUCache[tuple[str, str], int] = LRUCache(CACHED_TESTS)

    async def __call__(self) -> None:
        """Evaluate the guards of datasets with new outcomes, and carry decisions over to the playbooks.

        While the curator is unavailable, both wait. Raises HanseiError if the store is unavailable.
        """
        for dataset in await self._trials.list_changed():
            try:
                await self._evaluate(dataset)
            except HanseiError as error:
                _log.warning("guards not evaluated; trying again later", dataset=dataset, error=str(error))
        failed = 0
        while waiting := await self._trials.list_unpublished(MOST_AT_ONCE, skipped=failed):
            for dataset, numbered in waiting:
                try:
                    await self._publish(dataset, numbered)
                except HanseiError as error:
                    _log.warning("mode of a guard not changed; trying again later", dataset=dataset, error=str(error))
                    if isinstance(error, Unavailable | DeadlineExceeded):  # the curator, for all datasets
                        return
                    failed += 1

    async def undo(self, dataset: str, number: int, author: str) -> tuple[NumberedDecision, int]:
        """Take a decision back; return the new decision and its revision.

        Raises DecisionNotFound, DecisionNotCurrent, and the errors of the curator.
        """
        # Earlier decisions come first: one that is published after the undoing would take effect again.
        while waiting := await self._trials.list_unpublished(MOST_AT_ONCE, dataset):
            for _, numbered in waiting:
                await self._publish(dataset, numbered)
        undone = await self._trials.undo_decision(dataset, number, author)
        return undone, undone.decision.revision or await self._publish(dataset, undone)

    async def _evaluate(self, dataset: str) -> None:
        result = await self._evaluate_once(dataset)
        tested = False
        for trial in result.candidates:
            key = dataset, trial.target
            if result.passed < MORE_SESSIONS * self._tested_at.get(key, 0):
                continue
            self._tested_at[key] = result.passed
            try:
                number = await self._store.find_archived_number(dataset)
                backtest = await self._archive.test(Target(trial.target), dataset)
            except NotFound:  # there is no archive
                continue
            await self._store.store_backtest(dataset, trial.target, backtest, number)
            tested = True
        if tested:
            await self._evaluate_once(dataset)

    async def _evaluate_once(self, dataset: str) -> GuardEvaluation:
        found = await self._source.find(dataset)
        guards = [guard for guard in found.guards if guard.bullet_id not in found.pinned]
        in_effect = await limit_modes(self._store, dataset, guards, found.pinned)
        allowed = await self._store.find_allowed_modes(dataset, guards) if guards else {}
        backtested: dict[str, GuardMode] = {
            guard.target.source: allowed[guard.bullet_id].backtested for guard in guards if guard.bullet_id in allowed
        }
        result = await self._trials.evaluate(dataset, in_effect, backtested)
        for number, decision in result.decisions:
            _log.info(
                "mode of a guard changed",
                dataset=dataset,
                number=number,
                bullet=decision.bullet_id,
                mode=decision.after.name,
                reason=decision.reason,
            )
        return result

    async def _publish(self, dataset: str, numbered: NumberedDecision) -> int:
        decision = numbered.decision
        name = f"{dataset}\n{numbered.number}\n{decision.time.isoformat()}"
        request_id = str(uuid.uuid5(_NAMESPACE, name))
        try:
            revision = await self._playbooks.set_mode(request_id, dataset, decision)
        except NotFound:
            revision = 0  # the dataset was deleted
        await self._trials.set_published(dataset, numbered.number, revision)
        return revision
