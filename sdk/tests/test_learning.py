"""Test learning from many trajectories: one outcome each, a bound on parallel calls, and the end at an outage."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hansei.client.errors import FailedPrecondition, Unavailable
from hansei.client.learning import LearnOutcome, learn_all
from hansei.client.trajectories import TrajectoryRecord
from hansei.curator.v1.curator_service_pb2 import CurateResponse
from hansei.gateway.v1.gateway_service_pb2 import LearnResponse
from hansei.reflector.v1.trajectory_pb2 import Trajectory


class Learner:
    """Answer like a gateway, and count the parallel calls."""

    def __init__(self, jobs: int = 1) -> None:
        self.learned: list[str] = []
        self.most = 0
        self._open = 0
        self._lock = threading.Lock()
        self._full = threading.Barrier(jobs)

    def learn(self, trajectory: Trajectory, **_: Any) -> LearnResponse:
        with self._lock:
            self._open += 1
            self.most = max(self.most, self._open)
            self.learned.append(trajectory.id)
        if trajectory.id == "refused":
            self._leave()
            raise FailedPrecondition("the dataset is locked")
        if trajectory.id == "gone":
            self._leave()
            raise Unavailable("nobody answers")
        self._full.wait(timeout=30)
        self._leave()
        saved = trajectory.id != "unsaved"
        return LearnResponse(curation=CurateResponse(saved=saved, error="" if saved else "the model gave no JSON"))

    def _leave(self) -> None:
        with self._lock:
            self._open -= 1


def records(*ids: str) -> list[TrajectoryRecord]:
    return [TrajectoryRecord(id_, Trajectory(id=id_)) for id_ in ids]


def learn_records(learner: Learner, members: list[TrajectoryRecord], jobs: int = 1) -> list[LearnOutcome]:
    return list(learn_all(learner, members, jobs))  # type: ignore[arg-type]


def test_each_trajectory_has_one_outcome() -> None:
    learner = Learner()
    outcomes = learn_records(learner, records(*"abcde"))
    assert [outcome.record.source for outcome in outcomes] == list("abcde")
    assert not any(outcome.failure for outcome in outcomes)


def test_parallel_learn_calls_are_limited() -> None:
    # The barrier opens only when `jobs` calls wait in it at once: fewer would wait until the timeout.
    learner = Learner(jobs=4)
    assert len(learn_records(learner, records(*map(str, range(20))), jobs=4)) == 20
    assert learner.most == 4


def test_no_trajectories_have_no_outcomes() -> None:
    assert learn_records(Learner(), []) == []


def test_a_refused_trajectory_is_an_outcome_and_the_next_is_learned() -> None:
    outcomes = learn_records(Learner(), records("refused", "unsaved", "good"))
    assert [outcome.failure for outcome in outcomes] == ["the dataset is locked", "the model gave no JSON", ""]


def test_an_unavailable_server_stops_the_learning() -> None:
    learner = Learner()
    with pytest.raises(Unavailable):
        learn_records(learner, records("a", "gone", "b", "c"))
    assert learner.learned == ["a", "gone"]


def test_leaving_early_starts_no_further_learn_call() -> None:
    learner = Learner()
    for _ in learn_all(learner, records(*"abcde")):  # type: ignore[arg-type]
        break
    assert len(learner.learned) <= 2
