"""Successful rounds: the order of the calls, and the end of each team."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chassis.errors import AlreadyExists, Unavailable
from gateway.orchestrator.rounds import build_plan
from gateway.tests.scripted_peers import CONTINUE, EXECUTION, PROMPT, STOP, USAGE, Stage, rounds_request, team
from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.planner.v1 import generator_service_pb2 as generation
from hansei.validator.v1 import evaluation_pb2 as evaluation
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard


@pytest.mark.parametrize(
    ("scores", "verdicts", "fields", "expected"),
    [
        # rounds, best round, exit reason, calls of the judge: the vectors of section 5
        ([80, 85], [STOP], {}, (2, 2, "no_improvement_expected", 1)),
        ([80, 85, 85, 70, 60], [], {}, (5, 3, "max_rounds_reached", 4)),
        ([80, 85, 85, 70, 60], [], {"judge_on_final_round": False}, (5, 3, "max_rounds_reached", 3)),
        ([80], [], {"max_rounds": 1, "min_rounds": 1}, (1, 1, "max_rounds_reached", 1)),
        ([80], [STOP], {"max_rounds": 1}, (1, 1, "max_rounds_reached", 1)),  # G-48, G-60
        ([80, 70, 60], [], {"max_rounds": 3, "min_rounds": 3}, (3, 1, "max_rounds_reached", 1)),  # G-55
        ([80], [STOP], {"min_rounds": 1}, (1, 1, "no_improvement_expected", 1)),
        ([1] * 10, [], {"max_rounds": 10}, (10, 10, "max_rounds_reached", 9)),  # G-70
    ],
)
async def test_the_examples_of_the_specification_hold(
    scores: list[float], verdicts: list[Any], fields: dict[str, Any], expected: tuple[int, int, str, int]
) -> None:
    stage = Stage({"t1": scores}, verdicts)
    result = await stage.run(rounds_request(**fields))
    (outcome,) = result.teams
    judged = len(stage.requests_of("judge"))
    assert (outcome.rounds, outcome.best_round.round_number, outcome.exit_reason, judged) == expected  # G-60, G-61
    assert outcome.status == rounds.ROUNDS_STATUS_COMPLETED
    assert outcome.error == ""
    assert stage.board.finals("t1") == [expected[1]]  # G-61, G-72
    assert stage.board.rows["t1", expected[1]].exit_reason == expected[2]
    assert len(stage.events) == expected[0]  # G-46
    assert result.best_submission == f" {expected[1]}"


async def test_a_round_is_generated_evaluated_stored_and_judged_in_order() -> None:
    stage = Stage({"t1": [80, 85]}, [STOP])
    rounds_delivered: list[int] = []

    async def deliver(event: rounds.RoundFinished) -> None:
        stage.journal.append(("event", event))
        rounds_delivered.append(event.round.round_number)

    await stage.rounds.run(build_plan(rounds_request(), lambda: "id"), deliver)
    first = ["search", "generate", "evaluate", "row", "judgement", "event", "judgement"]
    second = ["ranking", "search", "generate", "evaluate", "row", "judgement", "event", "ranking", "judge", "judgement"]
    expected = ["ranking", *first, *second, "row", "ranking"]
    assert [kind for kind, _ in stage.journal] == expected  # G-50, G-59; B-53: no ranking for the prompt of round 1
    assert rounds_delivered == [1, 2]


async def test_the_usage_of_every_call_is_summed() -> None:
    stage = Stage({"t1": [80, 85], "t2": [90, Unavailable("down")]}, [STOP])
    result = await stage.run(rounds_request(team("t1"), team("t2")))
    first, second = result.teams
    # t1: two answers, two scores and one judgement; t2: two answers and a score, then its evaluator fails
    assert (first.usage.calls, second.usage.calls, result.usage.calls) == (5, 3, 8)
    assert (first.usage.cost_usd, result.usage.input_tokens) == (5 * USAGE.cost_usd, 8 * USAGE.input_tokens)
    assert first.best_round.usage.calls == 3
    assert [event.round.usage.calls for event in stage.events if event.team_id == "t1"] == [2, 2]


async def test_each_peer_gets_the_request_of_the_specification() -> None:
    config = evaluation.EvaluationConfig(model="openai:m")
    stage = Stage({"t1": [80, 85]}, [STOP])
    await stage.run(
        rounds_request(team(dataset="d", instruction="be brief"), evaluation=config, judge_model="openai:j")
    )
    assert [(s.query.query_text, s.dataset, s.min_revision) for s in stage.requests_of("search")] == [
        (PROMPT, "d", 7)
    ] * 2  # G-51
    first, second = stage.requests_of("generate")
    assert first.style == generation.GENERATE_STYLE_CITED  # G-50
    assert (first.dataset, first.instruction, first.bullets[0].id) == ("d", "be brief", "b-1")
    assert PROMPT in first.query  # G-67: braces stay as they are
    assert "まだ過去のSubmissionはありません。" in first.query
    assert "be brief 1" in second.query
    assert "1    | t1       | Team t1  | 80.00 ← あなたのチーム" in second.query
    for number, request in enumerate(stage.requests_of("evaluate"), 1):
        assert request.user_query == PROMPT  # G-52, G-71
        assert (request.submission, request.round_number) == (f"be brief {number}", number)
        assert (request.execution_id, request.team_id) == (EXECUTION, "t1")
        assert request.config == config
        assert "まだ" not in str(request)  # G-71
    (judge,) = stage.requests_of("judge")
    assert judge.model == "openai:j"
    assert PROMPT in judge.formatted_prompt
    assert "## ラウンド 1" in judge.formatted_prompt  # G-57: the whole history
    assert "## ラウンド 2" in judge.formatted_prompt
    assert "| 85.00 ← あなたのチーム" in judge.formatted_prompt  # G-59


async def test_the_leaderboard_gets_a_row_and_a_judgement_for_each_round() -> None:
    stage = Stage({"t1": [80.25, 70, 60]}, [CONTINUE, CONTINUE])
    await stage.run(rounds_request(max_rounds=3))
    rows = [request.entry for request in stage.requests_of("row")]
    assert [(row.key.round_number, row.final_submission) for row in rows] == [
        (1, False), (2, False), (3, False), (1, True),
    ]  # fmt: skip
    assert not rows[0].HasField("exit_reason")
    assert rows[3].exit_reason == "max_rounds_reached"
    assert (rows[0].team_name, rows[0].submission_content, rows[0].score) == ("Team t1", " 1", 80.25)
    details = evaluation.MetricScore(metric_name="Coverage", score=80.25, evaluator_comment="{{ c }}")
    assert rows[0].score_details == evaluation.EvaluationResult(overall_score=80.25, metrics=[details])  # V-69
    assert stage.board.judgements["t1", 1] == [
        leaderboard.JudgementRecord(),  # G-50: nulls first
        leaderboard.JudgementRecord(
            should_continue=True, reasoning="Below minimum rounds (1 < 2)", confidence_score=1.0
        ),  # G-55
    ]
    request = leaderboard.JudgementRecord(should_continue=True, reasoning="why", confidence_score=0.75)
    assert stage.board.judgements["t1", 2] == [leaderboard.JudgementRecord(), request]  # G-58
    forced = leaderboard.JudgementRecord(should_continue=False, reasoning="why", confidence_score=0.75)
    assert stage.board.judgements["t1", 3] == [leaderboard.JudgementRecord(), forced]  # G-57
    assert len(set(stage.board.request_ids)) == len(stage.board.request_ids)


async def test_without_a_judge_on_the_last_round_its_judgement_stays_null() -> None:
    stage = Stage({"t1": [80]})
    result = await stage.run(rounds_request(max_rounds=1, judge_on_final_round=False))
    assert stage.requests_of("judge") == []  # G-56
    assert stage.board.judgements["t1", 1] == [leaderboard.JudgementRecord()]
    assert not result.teams[0].best_round.HasField("improvement_judgment")


async def test_the_result_holds_the_best_round_with_its_judgement_and_times() -> None:
    stage = Stage({"t1": [80, 85]}, [STOP])
    result = await stage.run(rounds_request())
    best = result.teams[0].best_round
    assert best.improvement_judgment == evaluation.ImprovementJudgment(
        should_continue=False, reasoning="why", confidence_score=0.75
    )  # G-58
    assert best.round_ended_at.ToDatetime() > best.round_started_at.ToDatetime()
    event = stage.events[1]
    assert not event.round.HasField("improvement_judgment")  # the event comes before the decision
    assert (event.team_id, event.team_name, event.trajectory.generated_answer) == ("t1", "Team t1", " 2")


async def test_teams_share_the_execution_and_are_ranked() -> None:
    teams = [team(name, instruction=name) for name in ("a", "b", "c")]
    stage = Stage({"a": [80, 70], "b": [90, 60], "c": [90, 60]})
    result = await stage.run(rounds_request(*teams, max_rounds=2))
    assert result.status == rounds.ROUNDS_STATUS_COMPLETED
    assert [row.team_id for row in result.ranking] == ["b", "c", "a"]  # V-70
    assert (result.best_team_id, result.best_submission) == ("b", "b 1")  # G-64
    assert [outcome.team_id for outcome in result.teams] == ["a", "b", "c"]
    assert {request.entry.key.execution_id for request in stage.requests_of("row")} == {EXECUTION}  # G-49
    assert all(len(stage.board.finals(name)) == 1 for name in "abc")  # G-72


async def test_teams_run_at_the_same_time() -> None:
    """Each team's first generation waits until both have begun; one after the other would never end."""
    stage = Stage({"a": [1], "b": [1]})
    both = asyncio.Barrier(2)
    generate = stage.library.Generate

    async def together(request: generation.GenerateRequest) -> generation.GenerateResponse:
        await both.wait()
        return await generate(request)

    stage.library.Generate = together  # type: ignore[method-assign]
    result = await stage.run(rounds_request(team("a"), team("b"), max_rounds=1))
    assert result.status == rounds.ROUNDS_STATUS_COMPLETED  # G-49


async def test_an_execution_id_is_generated_and_shown() -> None:
    stage = Stage({"t1": [1]})
    request = rounds_request(max_rounds=1)
    request.ClearField("execution_id")
    events = [event async for event in stage.rounds.events(request)]
    (execution_id,) = {event.execution_id for event in events}
    assert execution_id == stage.requests_of("row")[0].entry.key.execution_id  # G-49


async def test_an_execution_is_not_run_twice() -> None:
    """Rows of earlier rounds would leave two final ones."""
    stage = Stage({"t1": [80]})
    await stage.run(rounds_request(max_rounds=1))
    with pytest.raises(AlreadyExists) as caught:
        await stage.run(rounds_request(max_rounds=1))
    assert caught.value.reason == "EXECUTION_EXISTS"
    assert stage.board.finals("t1") == [1]  # G-72
    assert len(stage.requests_of("generate")) == 1


async def test_an_execution_that_runs_is_not_begun_again() -> None:
    stage = Stage({"t1": [80]})
    first = stage.rounds.events(rounds_request(max_rounds=1))
    stage.library.hangs = lambda request, number: True
    running = asyncio.ensure_future(anext(first))
    await asyncio.sleep(0)
    with pytest.raises(AlreadyExists):
        await stage.run(rounds_request(max_rounds=1))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    stage.library.hangs = lambda request, number: False
    assert (await stage.run(rounds_request(max_rounds=1))).status == rounds.ROUNDS_STATUS_COMPLETED
