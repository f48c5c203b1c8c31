"""Rounds in which something fails: it ends one team, and no completed round is lost."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import given, settings
from hypothesis import strategies as st

from chassis import deadlines
from chassis.errors import DeadlineExceeded
from gateway.orchestrator.rounds import build_plan
from gateway.tests.scripted_peers import CONTINUE, Stage, rounds_request, team, unavailable
from hansei.gateway.v1 import rounds_service_pb2 as rounds

COMPLETED, FAILED = rounds.ROUNDS_STATUS_COMPLETED, rounds.ROUNDS_STATUS_FAILED


async def test_a_judge_that_fails_keeps_the_best_round() -> None:
    stage = Stage({"t1": [80, 90, 70]}, [CONTINUE, unavailable("no judge")])
    (outcome,) = (await stage.run(rounds_request())).teams
    assert (outcome.status, outcome.exit_reason) == (COMPLETED, "partial_failure")  # G-63, the vector
    assert (outcome.best_round.round_number, outcome.rounds, outcome.error) == (2, 3, "no judge")
    assert stage.board.finals("t1") == [2]  # G-72
    assert stage.board.rows["t1", 2].exit_reason == "partial_failure"


async def test_a_generation_that_fails_keeps_the_rounds_before() -> None:
    stage = Stage({"t1": [80, 90]})
    stage.library.fails = lambda request, number: "ModelUnavailable: 503" if number == 2 else None
    (outcome,) = (await stage.run(rounds_request())).teams
    assert (outcome.rounds, outcome.exit_reason, outcome.error) == (
        1,
        "partial_failure",
        "ModelUnavailable: 503",
    )  # G-53
    assert stage.board.finals("t1") == [1]


@pytest.mark.parametrize("message", ["", "the model is away"])
async def test_a_team_without_a_completed_round_has_failed(message: str) -> None:
    stage = Stage({"t1": [80]})
    stage.library.fails = lambda request, number: message
    result = await stage.run(rounds_request())
    (outcome,) = result.teams
    assert (outcome.status, outcome.exit_reason, outcome.rounds) == (FAILED, "", 0)  # G-63
    assert outcome.error == (message or "the generation failed")
    assert not outcome.HasField("best_round")
    assert result.status == FAILED  # G-65: a result, not an error
    assert not result.HasField("best_team_id")
    assert not result.HasField("best_submission")
    assert stage.board.rows == {}


async def test_a_failing_team_stops_no_other() -> None:
    teams = [team(name, instruction=name) for name in ("a", "b", "c")]
    stage = Stage({"a": [10, 20], "b": [90, unavailable("no evaluator")], "c": [unavailable("none")]})
    result = await stage.run(rounds_request(*teams, max_rounds=2))
    outcomes = {outcome.team_id: (outcome.status, outcome.exit_reason, outcome.rounds) for outcome in result.teams}
    assert outcomes == {
        "a": (COMPLETED, "max_rounds_reached", 2),
        "b": (COMPLETED, "partial_failure", 1),
        "c": (FAILED, "", 0),
    }  # G-63, G-69
    assert result.status == COMPLETED
    assert (result.best_team_id, result.best_submission) == ("b", "b 1")  # G-64: its completed round counts


@pytest.mark.parametrize(
    ("expires", "field", "completed"),
    [(7.0, "submission_timeout", 1), (8.0, "judgment_timeout", 2), (9.0, "team_timeout", 1)],
)
async def test_each_limit_of_time_is_kept(expires: float, field: str, completed: int) -> None:
    """The limit of `expires` seconds is over as soon as anything has to be waited for."""
    stage = Stage({"t1": [80, 90, 70]}, expires=expires)
    stage.library.hangs = lambda request, number: field != "judgment_timeout" and number == 2
    stage.judges.hangs = lambda request: field == "judgment_timeout"
    limits = {"submission_timeout": 7, "judgment_timeout": 8, "team_timeout": 9}
    request = rounds_request(**{name: Duration(seconds=seconds) for name, seconds in limits.items()})
    (outcome,) = (await stage.run(request)).teams
    assert (outcome.status, outcome.exit_reason) == (COMPLETED, "partial_failure_timeout")  # G-62, G-63
    assert (outcome.rounds, len(stage.board.finals("t1"))) == (completed, 1)
    assert f"took longer than {field} ({expires:g} s)" in outcome.error
    assert set(stage.limits) == {7.0, 9.0} | ({8.0} if field == "judgment_timeout" else set())


async def test_a_peer_that_is_late_counts_as_a_timeout() -> None:
    stage = Stage({"t1": [80, DeadlineExceeded("validator did not answer in time")]})
    (outcome,) = (await stage.run(rounds_request())).teams
    assert (outcome.exit_reason, outcome.rounds) == ("partial_failure_timeout", 1)


async def test_a_team_leaves_its_caller_time_for_the_outcome() -> None:
    stage = Stage({"t1": [80]})
    with deadlines.time_limit(60):
        await stage.run(rounds_request(max_rounds=1))
    assert 50 < stage.limits[0] <= 54  # G-62: a tenth of the remaining time is reserved


async def test_an_error_of_the_listener_changes_nothing() -> None:
    stage = Stage({"t1": [80, 90]})

    async def deaf(event: rounds.RoundFinished) -> None:
        raise ConnectionError("gone")

    result = await stage.rounds.run(build_plan(rounds_request(max_rounds=2), lambda: "id"), deaf)
    assert result.teams[0].rounds == 2  # G-54
    assert result.teams[0].error == ""


async def test_cancelling_rounds_ends_the_teams_with_a_final_row() -> None:
    stage = Stage({"a": [80, 90], "b": [70, 60]})
    stage.library.hangs = lambda request, number: number == 2
    teams = [team(name, instruction=name) for name in ("a", "b")]
    async with aclosing(stage.rounds.events(rounds_request(*teams))) as events:
        await anext(events)
        await anext(events)
    assert stage.board.finals("a") == stage.board.finals("b") == [1]  # G-72
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_final_row_that_cannot_be_written_hides_no_round() -> None:
    stage = Stage({"t1": [80]})
    stage.board.fails = lambda kind, request: (
        unavailable("disk full") if kind == "row" and request.entry.final_submission else None
    )
    result = await stage.run(rounds_request(max_rounds=1))
    (outcome,) = result.teams
    assert (outcome.status, outcome.best_round.round_number) == (COMPLETED, 1)  # G-69
    assert outcome.error == "the final row was not saved: disk full"


async def test_a_row_whose_round_was_not_completed_makes_no_best_team() -> None:
    stage = Stage({"a": [99], "b": [10]})
    stage.board.fails = lambda kind, request: (
        unavailable("locked") if kind == "judgement" and request.key.team_id == "a" else None
    )
    result = await stage.run(rounds_request(team("a", instruction="a"), team("b", instruction="b"), max_rounds=1))
    assert [outcome.status for outcome in result.teams] == [FAILED, COMPLETED]
    assert result.best_team_id == "b"


@settings(max_examples=200, deadline=None)
@given(
    min_rounds=st.integers(1, 4),
    more=st.integers(0, 3),
    final=st.booleans(),
    scores=st.lists(
        st.lists(st.one_of(st.integers(0, 100), st.none()), min_size=7, max_size=7), min_size=1, max_size=3
    ),
    verdicts=st.lists(st.sampled_from([True, False, None]), max_size=20),
)
async def test_every_team_with_a_completed_round_has_one_final_row_after_any_failure(
    min_rounds: int, more: int, final: bool, scores: list[list[int | None]], verdicts: list[bool | None]
) -> None:
    """G-69, G-70, G-72 for all scores, verdicts and failures (None)."""
    named = {f"t{index}": [unavailable() if s is None else s for s in own] for index, own in enumerate(scores)}
    stage = Stage(named, [unavailable() if verdict is None else verdict for verdict in verdicts])
    teams = [team(name) for name in named]
    most = min_rounds + more
    result = await stage.run(rounds_request(*teams, min_rounds=min_rounds, max_rounds=most, judge_on_final_round=final))
    for outcome in result.teams:
        rows = [row for (owner, _), row in stage.board.rows.items() if owner == outcome.team_id]
        finals = [row for row in rows if row.final_submission]
        assert outcome.rounds == len(rows) <= most
        assert outcome.error or outcome.rounds >= min_rounds
        if outcome.status == COMPLETED:
            assert len(finals) == 1
            best = max((row.score, row.key.round_number) for row in rows)
            assert best == (finals[0].score, finals[0].key.round_number)
        else:
            assert rows == []
