"""Calls of EvidenceService on a stored dataset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from chassis.errors import InvalidArgument, RequestIdReused
from hansei.evidence.v1 import evidence_service_pb2 as pb
from services.evidence.adapters.sql.guard_trial_repository import GuardTrialRepository
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.adapters.sql.schema import metadata
from services.evidence.domain.errors import DecisionNotFound
from services.evidence.domain.policy import TrialPolicy
from services.evidence.rpc.servicer.evidence import EvidenceServicer
from services.evidence.tests.test_decisions import Playbook
from services.evidence.tests.test_store import DATASET, NOW, FixedSearch, run_sessions, start_key
from services.evidence.usecases.decisions import DecisionPublisher
from services.evidence.usecases.recall import Recall
from tests.conftest import create_database, database_location, postgres

__all__ = ["create_database", "database_location", "postgres"]


@pytest.fixture
async def store(database_location: str) -> AsyncIterator[EvidenceRepository]:
    store = EvidenceRepository(database_location, clock=lambda: NOW)
    await store.database.open()
    yield store
    await store.database.close()


def build_servicer(store: EvidenceRepository) -> EvidenceServicer:
    async def archive(_: Any) -> bool:
        return True

    return EvidenceServicer(
        Recall(FixedSearch(), store),
        store,
        DecisionPublisher(store, Playbook()),
        archive,
        count_serving=lambda is_randomized: None,
        count_report=lambda is_counted, decisions: None,
    )


async def prove(store: EvidenceRepository) -> None:
    """Run sessions until b-0 is proven: one decision."""
    await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.0))
    await run_sessions(store, range(60), lambda served: float("b-0" in served))


async def test_a_watcher_gets_the_decisions_of_a_dataset_that_is_created_again(store: EvidenceRepository) -> None:
    watcher = build_servicer(store).WatchDecisions(pb.WatchDecisionsRequest(dataset=DATASET), None)
    await prove(store)
    assert (await anext(watcher)).decision.number == 1
    await store.erase(DATASET, NOW)
    await prove(store)
    async with asyncio.timeout(30):
        assert (await anext(watcher)).decision.number == 1


async def test_erased_trials_leave_no_row(store: EvidenceRepository) -> None:
    await prove(store)
    assert await store.erase(DATASET, NOW)
    tables = [
        metadata.tables[name] for name in ("dataset_trials", "bullet_trial", "effect_point", "serving", "decision")
    ]
    counts = await store.database.read(
        lambda connection: [connection.scalar(select(func.count()).select_from(table)) for table in tables]
    )
    assert counts == [0] * len(tables)


async def test_a_number_of_any_size_is_looked_up(store: EvidenceRepository) -> None:
    await prove(store)
    for number in (2**31, 2**63 - 1):
        with pytest.raises(DecisionNotFound, match=f"has no decision {number}"):
            await store.undo_decision(DATASET, number)
        with pytest.raises(DecisionNotFound, match=f"has no decision {number}"):
            await store.find_decision(DATASET, number)
        with pytest.raises(DecisionNotFound, match=f"has no decision {number}"):
            await GuardTrialRepository(store.database).undo_decision(DATASET, number, "ada")
        assert await store.list_later_decisions(DATASET, number, 10) == []


async def test_a_page_token_is_checked_without_trials(store: EvidenceRepository) -> None:
    with pytest.raises(InvalidArgument, match="page_token"):
        await build_servicer(store).GetEffects(pb.GetEffectsRequest(dataset=DATASET, page_token="AAAA"), None)


async def test_tenants_share_no_request_ids(store: EvidenceRepository) -> None:
    trials, request_id = build_servicer(store), str(uuid4())
    for dataset in ("acme--d", "evil--d", "d"):
        request = pb.StartTrialsRequest(request_id=request_id, dataset=dataset)
        assert (await trials.StartTrials(request, None)).restarted
        assert await trials.StopTrials(pb.StopTrialsRequest(request_id=str(uuid4()), dataset=dataset), None)
        assert (await trials.StartTrials(request, None)).restarted  # the stored response
        with pytest.raises(RequestIdReused):
            await trials.StopTrials(pb.StopTrialsRequest(request_id=request_id, dataset=dataset), None)
    with pytest.raises(RequestIdReused):
        await trials.StartTrials(pb.StartTrialsRequest(request_id=request_id, dataset="acme--other"), None)
