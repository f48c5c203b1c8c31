"""Decisions in the playbook: removals, and how they are undone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chassis.errors import InvalidArgument, NotFound, Unavailable
from services.evidence.adapters.sql.repository import EvidenceRepository
from services.evidence.domain.errors import DecisionNotCurrent, DecisionNotFound
from services.evidence.domain.policy import TrialPolicy
from services.evidence.domain.trials import BulletState
from services.evidence.tests.test_store import BULLETS, DATASET, open_store, run_sessions, start_key
from services.evidence.usecases.decisions import DecisionPublisher
from services.evidence.usecases.ports import AddedBullet, OutcomeReport


@dataclass
class Playbook:
    """Takes changes as the curator does: each request id once."""

    present: set[str] = field(default_factory=lambda: {bullet.bullet_id for bullet in BULLETS})
    failures: list[Exception] = field(default_factory=list)
    responses: dict[str, int | AddedBullet] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    datasets: set[str] = field(default_factory=lambda: {DATASET})

    async def remove(self, request_id: str, dataset: str, bullet_id: str, text_version: str, reason: str) -> int:
        if self.failures:
            raise self.failures.pop()
        assert dataset in self.datasets
        assert text_version == "0" * 16
        if request_id not in self.responses:
            self.responses[request_id] = 10 + len(self.reasons) if bullet_id in self.present else 0
            self.present.discard(bullet_id)
            self.reasons.append(reason)
        response = self.responses[request_id]
        assert isinstance(response, int)
        return response

    async def withdraw_removal(
        self, request_id: str, dataset: str, bullet_id: str, removal_reason: str, author: str, reason: str
    ) -> int:
        return 0

    async def add_again(self, request_id: str, dataset: str, bullet_id: str, author: str, reason: str) -> AddedBullet:
        if request_id not in self.responses:
            self.responses[request_id] = AddedBullet(f"{bullet_id}-again", 20)
            self.reasons.append(f"{author}: {reason}")
        response = self.responses[request_id]
        assert isinstance(response, AddedBullet)
        return response


async def decide_harmful(store: EvidenceRepository) -> int:
    """Run sessions until b-1 is harmful; return the number of the decision."""
    await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.0))
    await run_sessions(store, range(150), lambda served: float("b-1" not in served))
    ((number, decision),) = await store.list_decisions(DATASET, None, 10)
    assert (decision.bullet_id, decision.after, decision.revision) == ("b-1", BulletState.HARMFUL, 0)
    return number


def test_a_bullet_whose_decision_no_longer_holds_is_not_removed(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await decide_harmful(store)
            assert len(await store.list_unpublished_removals(10)) == 1
            # Another holdout discards all measurements so far.
            await store.start(start_key(), DATASET, TrialPolicy(playbook_holdout=0.2))
            assert await store.list_unpublished_removals(10) == []

    asyncio.run(run())


def test_a_harmful_bullet_is_removed_once_with_its_measurements_as_the_reason(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            playbook = Playbook()
            number = await decide_harmful(store)
            assert [await DecisionPublisher(store, playbook).publish() for _ in range(3)] == [1, 0, 0]
            assert playbook.present == {"b-0", "b-2"}
            (reason,) = playbook.reasons
            assert reason.startswith("harmful by trials: -100 points of success, 95 % interval -100 to -")
            assert (await store.find_decision(DATASET, number)).revision == 10

    asyncio.run(run())


def test_a_removal_waits_while_the_curator_is_unavailable(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            playbook = Playbook(failures=[Unavailable("curator is unavailable")])
            await decide_harmful(store)
            publisher = DecisionPublisher(store, playbook)
            assert [await publisher.publish(), await publisher.publish()] == [0, 1]
            assert playbook.present == {"b-0", "b-2"}

    asyncio.run(run())


def test_a_removal_that_fails_delays_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await decide_harmful(store)
            await store.start(start_key("other"), "other", TrialPolicy(playbook_holdout=0.0))
            for number in range(150):
                serving_id, exposures = await store.serve("other", f"s{number}", BULLETS[1:2])
                is_served = bool(exposures and exposures[0].is_served)
                await store.report("other", OutcomeReport(serving_id, float(not is_served), False))
            refusal = InvalidArgument("bullets of 'devtools' cannot be removed")
            playbook = Playbook(failures=[refusal], datasets={DATASET, "other"})
            publisher = DecisionPublisher(store, playbook)
            assert await publisher.publish() == 1
            ((dataset, _, _),) = await store.list_unpublished_removals(10)
            assert dataset == DATASET
            assert [await publisher.publish(), await publisher.publish()] == [1, 0]

    asyncio.run(run())


def test_a_removal_from_a_deleted_dataset_is_not_tried_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            await decide_harmful(store)
            publisher = DecisionPublisher(store, Playbook(failures=[NotFound("no dataset 'devtools'")]))
            assert [await publisher.publish(), await publisher.publish()] == [1, 0]

    asyncio.run(run())


def test_an_undone_decision_puts_the_bullet_back_on_trial_and_adds_it_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            playbook = Playbook()
            publisher = DecisionPublisher(store, playbook)
            number = await decide_harmful(store)
            await publisher.publish()
            undone = await publisher.undo(DATASET, number, "ada")
            assert undone.added == AddedBullet("b-1-again", 20)
            assert playbook.reasons[-1] == f"ada: decision {number} of trials was undone"
            assert (undone.decision.before, undone.decision.after) == (BulletState.HARMFUL, BulletState.TRIAL)
            assert await publisher.undo(DATASET, number, "ada") == undone
            trial = next(trial for trial in await store.list_bullet_trials(DATASET) if trial.bullet_id == "b-1")
            assert (trial.state, trial.statistics.served, trial.position) == (BulletState.TRIAL, 0.0, 3)
            assert (await store.find_decision(DATASET, number)).is_undone
            assert await store.list_points(DATASET, "b-1") == []

    asyncio.run(run())


def test_a_removal_that_waits_is_made_before_it_is_undone(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            playbook = Playbook()
            publisher = DecisionPublisher(store, playbook)
            undone = await publisher.undo(DATASET, await decide_harmful(store), "ada")
            assert undone.added == AddedBullet("b-1-again", 20)
            assert await publisher.publish() == 0
            assert len(playbook.reasons) == 2

    asyncio.run(run())


def test_a_correction_does_not_bring_an_undone_decision_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            number = await decide_harmful(store)
            await DecisionPublisher(store, Playbook()).undo(DATASET, number, "")
            ids = await run_sessions(store, range(150, 160), lambda _: 1.0)
            result = await store.report(DATASET, OutcomeReport(ids[0], 0.0, True))
            assert result.decisions == []
            trial = next(trial for trial in await store.list_bullet_trials(DATASET) if trial.bullet_id == "b-1")
            assert trial.state is BulletState.TRIAL

    asyncio.run(run())


def test_only_the_newest_decision_about_a_bullet_can_be_undone(tmp_path: Path) -> None:
    async def run() -> None:
        async with open_store(tmp_path) as store:
            publisher = DecisionPublisher(store, Playbook())
            with pytest.raises(DecisionNotFound, match="has no decision 7"):
                await publisher.undo(DATASET, 7, "")
            number = await decide_harmful(store)
            await store.start(start_key(), DATASET, TrialPolicy(bullet_holdout=0.5))
            with pytest.raises(DecisionNotCurrent, match="about bullet 'b-1'"):
                await publisher.undo(DATASET, number, "")

    asyncio.run(run())
