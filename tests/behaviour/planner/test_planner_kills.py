"""kill -9 at every point of an execution: nothing committed runs again, effects happen once, the result is the same.

The scenarios and their points are in `services.planner.tests.killable`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import signal
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from services.planner.domain.events import Effect, InterventionRequested, StepFinished, StepInDoubt, StepStarted
from services.planner.domain.execution import ExecutionState
from services.planner.tests import killable

pytestmark = pytest.mark.long

# A fork server with all modules imported starts each process: fast, and without the threads of this process.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["services.planner.tests.killable"])
_SECONDS = 60


def life(folder: Path, scenario: str, kill_at: int = 0) -> int | None:
    """One life of a planner; its exit code, -9 if it was killed."""
    process = PROCESSES.Process(target=killable.live, args=(str(folder), scenario, kill_at))
    process.start()
    process.join(_SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError(f"{scenario}, killed at {kill_at}: the execution did not end")
    return process.exitcode


def essence(state: ExecutionState) -> Any:
    """Return the part of a result that must not depend on when a process died."""
    assert state.result is not None
    results = [(r.step_id, r.status, r.output, r.confidence, r.sources, r.error) for r in state.result.step_results]
    whole = state.result
    return results, whole.final_answer, whole.overall_status, whole.overall_confidence, whole.replan_count


@cache
def run_uninterrupted(folder: Path, scenario: str) -> tuple[int, Any]:
    """Run an execution without a kill; return its number of points and its result."""
    folder.mkdir(parents=True)
    assert life(folder, scenario) == 0

    state, _ = asyncio.run(killable.outcome(folder))
    return int((folder / "points").read_text()), essence(state)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uninterrupted")


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a database of the newest schema: to make one takes longer than a life."""
    folder = tmp_path_factory.mktemp("empty")
    asyncio.run(killable.create_database(folder))
    return folder


@pytest.mark.parametrize("scenario", sorted(killable.SCENARIOS))
def test_a_killed_execution_ends_as_if_nothing_had_happened(
    base: Path, empty_database: Path, tmp_path: Path, scenario: str
) -> None:
    points, expected = run_uninterrupted(base / scenario, scenario)
    for kill_at in range(1, points + 1):
        folder = shutil.copytree(empty_database, tmp_path / str(kill_at))
        assert life(folder, scenario, kill_at) == -signal.SIGKILL
        before = committed_calls(folder)
        assert life(folder, scenario) == 0
        check(folder, scenario, before, expected, kill_at)
        shutil.rmtree(folder)


def committed_calls(folder: Path) -> dict[str, int]:
    """Calls made before the kill of the steps that were committed then."""

    calls = Counter(killable.World(folder).recorded_keys("calls"))
    try:
        _, log = asyncio.run(killable.outcome(folder))
    except Exception:  # killed before the first event
        return {}
    finished = {r.event.step_id for r in log if isinstance(r.event, StepFinished)}
    return {key: count for key, count in calls.items() if int(key.split(":")[1]) in finished}


def check(folder: Path, scenario: str, before: dict[str, int], expected: Any, kill_at: int) -> None:

    state, log = asyncio.run(killable.outcome(folder))
    world, where = killable.World(folder), f"{scenario}, killed at {kill_at}"
    effects, calls = Counter(world.recorded_keys("effects")), Counter(world.recorded_keys("calls"))
    doubts = [r.event for r in log if isinstance(r.event, StepInDoubt)]
    requests = [r.event.request for r in log if isinstance(r.event, InterventionRequested)]
    for key, count in before.items():
        assert calls[key] == count, f"{where}: committed call {key} was made again"
    intents = {r.event.key: r.event.effect for r in log if isinstance(r.event, StepStarted)}
    for key, effect in intents.items():
        if effect in (Effect.KEYED, Effect.RECONCILABLE):
            assert effects[key] == 1, f"{where}: {effect} effect {key} happened {effects[key]} times"
        if effect is Effect.UNSAFE:
            assert effects[key] <= 1, f"{where}: unsafe effect {key} happened {effects[key]} times"
    if scenario == "unsafe":
        assert len(doubts) == sum(request.reason == "in doubt" for request in requests) <= 1, where
    else:
        assert doubts == [], f"{where}: a person was asked about an effect that can be resolved"
    if not doubts:
        assert essence(state) == expected, where
    else:
        # The person's answer replaces the result of the tool; everything else is equal.
        outputs = [(r.step_id, r.status, r.output) for r in state.step_results.values()]
        assert sorted(outputs) == sorted((i, s, o) for i, s, o, *_ in expected[0]), where


def test_there_are_more_than_two_hundred_points(base: Path) -> None:
    assert sum(run_uninterrupted(base / name, name)[0] for name in sorted(killable.SCENARIOS)) > 200
