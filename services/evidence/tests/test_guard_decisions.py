"""Decisions about the modes of guards, and how they reach the playbooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from chassis.errors import HanseiError, InvalidArgument, Unavailable
from chassis.targets.guard import GuardMode
from services.evidence.adapters.sql import guard_trial_queries as queries
from services.evidence.adapters.sql.guard_trial_repository import GuardTrialRepository
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.guard_trials import ModeDecision
from services.evidence.tests.archives import NOW
from services.evidence.usecases import guard_decisions
from services.evidence.usecases.guard_decisions import GuardDecisions

UNUSED: Any = None


class Playbooks:
    """Sets modes, but not in the datasets `a` and `b`."""

    def __init__(self, error: Callable[[str], HanseiError]) -> None:
        self.error = error
        self.calls: list[str] = []

    async def set_mode(self, request_id: str, dataset: str, decision: ModeDecision) -> int:
        self.calls.append(dataset)
        if dataset in ("a", "b"):
            raise self.error(dataset)
        return 7


@pytest.mark.parametrize(
    ("error", "calls", "waiting"),
    [(InvalidArgument, ["a", "b", "c"], ["a", "b"]), (Unavailable, ["a"], ["a", "b", "c"])],
)
async def test_a_decision_that_fails_keeps_no_other_one_from_its_playbook(
    error: Callable[[str], HanseiError],
    calls: list[str],
    waiting: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard_decisions, "MOST_AT_ONCE", 1)
    decision = ModeDecision("b-1", "true", GuardMode.SHADOW, GuardMode.ADVISE, "reason", NOW)

    def insert(connection: Connection) -> None:
        for number, dataset in enumerate("abc", 1):
            queries.insert_decision(connection, dataset, number, decision)

    database = EvidenceRepository(str(tmp_path / "evidence.db")).database
    await database.open()
    try:
        await database.write(insert)
        trials, playbooks = GuardTrialRepository(database), Playbooks(error)
        await GuardDecisions(UNUSED, UNUSED, trials, UNUSED, playbooks)()
        assert playbooks.calls == calls
        assert [dataset for dataset, _ in await trials.list_unpublished(10)] == waiting
    finally:
        await database.close()
