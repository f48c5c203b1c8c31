"""Evaluation, judgement, comparison and the leaderboard over gRPC."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chassis import Peers, serve
from chassis.errors import AlreadyExists, FailedPrecondition, HanseiError, InvalidArgument, NotFound, Unavailable
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.validator.v1 import evaluation_pb2 as evaluation
from hansei.validator.v1 import evaluator_service_pb2 as pb
from hansei.validator.v1 import evaluator_service_pb2_grpc, leaderboard_service_pb2_grpc
from hansei.validator.v1 import leaderboard_service_pb2 as board
from services.validator.adapters.judge_model import MAX_CLIENTS
from services.validator.bootstrap import build
from services.validator.settings import ValidatorSettings
from tests.fakes.openai_answers import ModelRequest, chat_json, error
from tests.fakes.openai_server import OpenAIServer

MODEL = "openai:gpt-4o-mini"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        monkeypatch.setenv("LLM_PROVIDER", "openai")
        monkeypatch.setenv("OPENAI_API_KEY", "secret-key-of-the-test")
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        yield running


@asynccontextmanager
async def validator_in(folder: Path, **settings: Any) -> AsyncIterator[Any]:
    """Stubs of a running validator, over a channel as services use it."""
    chosen = ValidatorSettings(validator_database_url=str(folder / "leaderboard.db"), **settings)
    async with serve(build(chosen, Peers({}))) as running:
        peers = Peers({"validator": running.address})
        channel = peers.get_channel("validator")
        yield SimpleNamespace(
            evaluator=evaluator_service_pb2_grpc.EvaluatorServiceStub(channel),
            leaderboard=leaderboard_service_pb2_grpc.LeaderboardServiceStub(channel),
        )
        await peers.close()


@pytest.fixture
async def validator(tmp_path: Path) -> AsyncIterator[Any]:
    async with validator_in(tmp_path, evaluator_model=MODEL, judge_model=MODEL) as stubs:
        yield stubs


def score_answer(score: float) -> Any:
    return chat_json({"score": score, "evaluator_comment": " 良い "})


async def test_a_submission_is_scored(validator: Any, model: OpenAIServer) -> None:  # V-52, V-53, V-60
    model.script(score_answer(80), score_answer(90), score_answer(70))
    response = await validator.evaluator.Evaluate(pb.EvaluateRequest(user_query=" 問い ", submission=" 案 {x} "))
    assert response.result.overall_score == 80.0
    assert [(item.metric_name, item.score, item.evaluator_comment) for item in response.result.metrics] == [
        ("ClarityCoherence", 80, "良い"),
        ("Coverage", 90, "良い"),
        ("Relevance", 70, "良い"),
    ]
    usage = response.usage
    assert (usage.calls, usage.calls_without_cost, usage.cost_usd > 0) == (3, 0, True)
    body = model.requests[0].body
    assert body["response_format"]["type"] == "json_schema"
    assert body["temperature"] == 0.0
    assert "案 {x}" in model.requests[0].prompt


async def test_metrics_weights_and_models_are_chosen_by_the_request(validator: Any, model: OpenAIServer) -> None:
    model.script(score_answer(90.12), score_answer(80.34))
    metrics = [
        evaluation.MetricConfig(name="幅", metric="Coverage", weight=0.6, model="openai:big"),
        evaluation.MetricConfig(name="LLMPlain", weight=0.4, instruction="一文で採点"),
    ]
    config = evaluation.EvaluationConfig(metrics=metrics, temperature=0.5)
    request = pb.EvaluateRequest(user_query="q", submission="s", config=config)
    response = await validator.evaluator.Evaluate(request)
    assert response.result.overall_score == 86.21
    assert [sent.body["model"] for sent in model.requests] == ["big", "gpt-4o-mini"]
    assert model.requests[1].messages[0] == ("system", "一文で採点")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"metrics": [{"name": "Coverage", "weight": 0.5}]}, "Metric weights must sum to 1.0, got: 0.5"),
        (
            {"metrics": [{"name": "Coverage", "weight": 0.5}, {"name": "Relevance"}]},
            "Metric weights must be given for all metrics or for none",
        ),
        ({"model": "gpt-4o"}, "Invalid model id 'gpt-4o': expected provider:model-name"),
        ({"model": "nobody:x"}, "Unknown provider: nobody"),
        (
            {"metrics": [{"name": "x"}]},
            "Unknown metric 'x': expected one of ClarityCoherence, Coverage, Relevance, LLMPlain",
        ),
    ],
)
async def test_bad_configurations_are_refused(  # V-55, V-59, V-75
    validator: Any, model: OpenAIServer, config: dict[str, Any], message: str
) -> None:
    request = pb.EvaluateRequest(user_query="q", submission="s", config=config)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument) as raised:
        await validator.evaluator.Evaluate(request)
    assert str(raised.value) == message
    assert model.requests == []


@pytest.mark.parametrize("field", ["user_query", "submission"])
async def test_blank_texts_are_refused(validator: Any, field: str) -> None:  # V-62
    fields: dict[str, Any] = {"user_query": "q", "submission": "s", field: " \u3000"}
    with pytest.raises(InvalidArgument, match=f"^{field} cannot be empty$"):
        await validator.evaluator.Evaluate(pb.EvaluateRequest(**fields))


async def test_a_failing_judge_is_unavailable(validator: Any, model: OpenAIServer) -> None:  # V-61, V-75
    model.answer_with(error(500, "down"))
    config = evaluation.EvaluationConfig(max_retries=0)
    with pytest.raises(Unavailable) as raised:
        await validator.evaluator.Evaluate(pb.EvaluateRequest(user_query="q", submission="s", config=config))
    assert raised.value.reason == "EVALUATOR_FAILED"
    assert raised.value.metadata["metric_name"] == "ClarityCoherence"
    assert raised.value.metadata["provider"] == "openai"
    assert raised.value.metadata["retry_count"] == "0"


async def test_repeated_scoring_returns_an_interval(validator: Any, model: OpenAIServer) -> None:
    model.answer_with(score_answer(80))
    config = evaluation.EvaluationConfig(metrics=[evaluation.MetricConfig(name="Coverage")])
    request = pb.EvaluateRequest(user_query="q", submission="s", config=config, repeated_scoring={})  # type: ignore[arg-type]
    (score,) = (await validator.evaluator.Evaluate(request)).result.metrics
    assert 3 <= len(score.sampled.samples) <= 10
    assert score.sampled.lower <= 80 <= score.sampled.upper


JUDGMENT = {"should_continue": True, "reasoning": "伸びている", "confidence_score": 0.75}


async def test_prospects_are_judged(validator: Any, model: OpenAIServer) -> None:  # V-63, V-64, B-54
    model.script(chat_json(JUDGMENT))
    response = await validator.evaluator.Judge(pb.JudgeRequest(formatted_prompt="完成 {x}"))
    judgment = response.judgment
    assert (response.usage.calls, response.usage.cost_usd > 0) == (1, True)
    assert (judgment.should_continue, judgment.reasoning, judgment.confidence_score) == (True, "伸びている", 0.75)
    assert model.requests[0].prompt == "完成 {x}"
    with pytest.raises(InvalidArgument, match=r"^formatted_prompt cannot be empty$"):
        await validator.evaluator.Judge(pb.JudgeRequest(formatted_prompt=" "))


async def test_a_missing_key_is_a_failed_precondition(validator: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # V-80
    monkeypatch.setenv("GOOGLE_API_KEY", "")
    with pytest.raises(FailedPrecondition, match=r"^GOOGLE_API_KEY is not set$"):
        await validator.evaluator.Judge(pb.JudgeRequest(formatted_prompt="x", model="google-gla:gemini-2.5-flash"))


async def test_the_shared_model_scores_and_judges_unless_another_is_named(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "chooses-nothing")
    monkeypatch.setenv("LLM_MODEL", "shared")
    model.script(chat_json(JUDGMENT))
    async with validator_in(tmp_path) as validator:
        assert (await validator.evaluator.Judge(pb.JudgeRequest(formatted_prompt="x"))).judgment.should_continue
    assert [request.body["model"] for request in model.requests] == ["shared"]


async def test_offline_rules_judge_and_state_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "offline")
    async with validator_in(tmp_path) as validator:
        request = pb.EvaluateRequest(user_query="社内の勉強会を続けるには", submission="社内の勉強会を月に一度続ける。")
        response = await validator.evaluator.Evaluate(request)
        first = response.result
        assert response.usage == ModelUsage()
        assert first.overall_score > 50
        assert all("オフライン" in item.evaluator_comment for item in first.metrics)
        assert (await validator.evaluator.Evaluate(request)).result == first
        judgment = (await validator.evaluator.Judge(pb.JudgeRequest(formatted_prompt="80.00/100"))).judgment
        assert judgment.should_continue
        assert judgment.reasoning.startswith("Offline, by rules over the text")


def prefers_strength(request: ModelRequest) -> Any:
    """Prefers the text with more stars; sometimes the first one regardless."""
    display_text = json.loads(request.prompt)
    stars = {name: display_text[name].count("*") for name in ("first", "second")}
    upset = (len(display_text["request"]) + stars["first"] * 3 + stars["second"]) % 4 == 0
    better = "first" if upset or stars["first"] > stars["second"] else "second"
    return chat_json({"preference": better, "reasoning": ""})(request)


def tournament(*teams: str) -> pb.CompareSubmissionsRequest:
    tasks = [
        pb.ComparisonTask(
            task_id=f"p{number}",
            user_query="問" * number,
            submissions=[
                pb.ContestantSubmission(id=team, content="*" * rank + "x" * ((number * rank) % 5))
                for rank, team in enumerate(teams, 1)
            ],
        )
        for number in range(1, 9)
    ]
    return pb.CompareSubmissionsRequest(tasks=tasks)


async def test_submissions_are_compared_and_ranked(validator: Any, model: OpenAIServer) -> None:
    model.answer_with(prefers_strength)
    response = await validator.evaluator.CompareSubmissions(tournament("a", "b", "c"))
    assert len(response.comparisons) == response.usage.calls == 8 * 3 * 2
    assert response.not_ranked_because == ""
    assert [rating.id for rating in response.ranking.ratings] == ["c", "b", "a"]
    assert response.ranking.position_term > 0
    again = await validator.evaluator.RankComparisons(pb.RankComparisonsRequest(comparisons=response.comparisons))
    assert again.ranking == response.ranking


async def test_comparisons_that_determine_nothing_are_refused(validator: Any) -> None:
    comparison = evaluation.Comparison(first_id="a", second_id="b", preference=evaluation.PREFERENCE_FIRST)
    with pytest.raises(InvalidArgument) as raised:
        await validator.evaluator.RankComparisons(pb.RankComparisonsRequest(comparisons=[comparison]))
    assert raised.value.reason == "COMPARISONS_NOT_IDENTIFIABLE"


def upsert(team: str, number: int, score: float, request_id: str = "", execution: str = "e1", **fields: Any) -> Any:
    key = board.RoundKey(execution_id=execution, team_id=team, round_number=number)
    entry = board.LeaderBoardEntry(key=key, team_name=team.upper(), submission_content="案", score=score, **fields)
    return board.UpsertLeaderboardEntryRequest(request_id=request_id or str(uuid.uuid4()), entry=entry)


async def test_the_leaderboard_stores_and_ranks_entries(validator: Any) -> None:  # V-67 to V-71, V-74
    leaderboard = validator.leaderboard
    for team, number, score in (("t2", 1, 80.0), ("t1", 1, 80.0), ("t2", 2, 75.0), ("t3", 1, 90.0)):
        await leaderboard.UpsertLeaderboardEntry(upsert(team, number, score))
    rows = (await leaderboard.GetRanking(board.GetRankingRequest(execution_id="e1"))).rows
    assert [(row.rank, row.team_id, row.max_score, row.total_rounds) for row in rows] == [
        (1, "t3", 90, 1),
        (2, "t1", 80, 1),
        (3, "t2", 80, 2),
    ]
    assert not rows[0].HasField("shrunken_score")
    order = board.RANKING_ORDER_SHRUNKEN
    shrunken = (await leaderboard.GetRanking(board.GetRankingRequest(execution_id="e1", order=order))).rows
    assert all(row.HasField("shrunken_score") for row in shrunken)
    assert len((await leaderboard.GetRanking(board.GetRankingRequest(execution_id="other"))).rows) == 0

    best = (await leaderboard.GetBestSubmission(board.GetBestSubmissionRequest(execution_id="e1"))).entry
    assert best.key.team_id == "t3"
    with pytest.raises(NotFound):
        await leaderboard.GetBestSubmission(board.GetBestSubmissionRequest(execution_id="other"))

    record = board.JudgementRecord(should_continue=False, reasoning="頭打ち")
    await leaderboard.RecordJudgement(
        board.RecordJudgementRequest(request_id=str(uuid.uuid4()), key=best.key, judgement=record)
    )
    final = upsert("t3", 1, 90.0, final_submission=True, exit_reason="max_rounds_reached")
    stored = (await leaderboard.UpsertLeaderboardEntry(final)).entry
    assert (stored.id, stored.create_time) == (best.id, best.create_time)

    await leaderboard.UpsertLeaderboardEntry(upsert("t1", 1, 40.0, execution="e2"))
    newest = await leaderboard.ListLeaderboards(board.ListLeaderboardsRequest(page_size=1))
    assert [(summary.execution_id, summary.best_team_name) for summary in newest.leaderboards] == [("e2", "T1")]
    oldest = await leaderboard.ListLeaderboards(
        board.ListLeaderboardsRequest(page_size=1, page_token=newest.next_page_token)
    )
    assert [(summary.execution_id, summary.max_score) for summary in oldest.leaderboards] == [("e1", 90)]
    assert oldest.leaderboards[0].create_time.ToDatetime() <= oldest.leaderboards[0].update_time.ToDatetime()
    assert not oldest.next_page_token

    seen, token = [], ""
    while True:
        request = board.ListLeaderboardEntriesRequest(execution_id="e1", page_size=3, page_token=token)
        page = await leaderboard.ListLeaderboardEntries(request)
        seen += list(page.entries)
        token = page.next_page_token
        if not token:
            break
    assert [(entry.key.team_id, entry.key.round_number) for entry in seen] == [
        ("t1", 1),
        ("t2", 1),
        ("t2", 2),
        ("t3", 1),
    ]
    assert seen[-1].judgement == record
    assert not seen[-1].judgement.HasField("confidence_score")
    assert not seen[0].HasField("judgement")


async def test_a_row_is_answered_with_the_teams_best_round(validator: Any) -> None:  # G-61
    written = [(1, 80.0), (2, 85.0), (3, 85.0), (4, 70.0)]
    answers = [await validator.leaderboard.UpsertLeaderboardEntry(upsert("t1", *row)) for row in written]
    assert [answer.best_round_number for answer in answers] == [1, 2, 3, 3]


async def test_writes_are_idempotent(validator: Any) -> None:
    request = upsert("t1", 1, 70.0)
    first = await validator.leaderboard.UpsertLeaderboardEntry(request)
    await validator.leaderboard.UpsertLeaderboardEntry(upsert("t1", 1, 90.0))
    assert await validator.leaderboard.UpsertLeaderboardEntry(request) == first
    best = await validator.leaderboard.GetBestSubmission(board.GetBestSubmissionRequest(execution_id="e1"))
    assert best.entry.score == 90
    with pytest.raises(AlreadyExists):
        await validator.leaderboard.UpsertLeaderboardEntry(upsert("t1", 1, 1.0, request.request_id))


async def test_the_leaderboard_survives_a_restart(tmp_path: Path) -> None:  # V-73
    async with validator_in(tmp_path) as validator:
        await validator.leaderboard.UpsertLeaderboardEntry(upsert("t1", 1, 70.0))
    async with validator_in(tmp_path) as validator:
        best = await validator.leaderboard.GetBestSubmission(board.GetBestSubmissionRequest(execution_id="e1"))
        assert best.entry.score == 70


@pytest.mark.parametrize(
    "request_message",
    [
        upsert("t1", 0, 70.0),
        upsert("t1", 1, 101.0),
        upsert("t1", 1, float("nan")),
        upsert("", 1, 70.0),
        upsert("t1", 1, 70.0, request_id="no uuid"),
    ],
)
async def test_bad_entries_are_refused_and_nothing_is_written(validator: Any, request_message: Any) -> None:
    with pytest.raises(HanseiError) as raised:
        await validator.leaderboard.UpsertLeaderboardEntry(request_message)
    assert raised.value.code == "INVALID_ARGUMENT"
    assert len((await validator.leaderboard.GetRanking(board.GetRankingRequest(execution_id="e1"))).rows) == 0


@pytest.mark.parametrize("token", ["x", "W10=", "eyJhIjogMX0=", "WyJhIiwgMWU5OTld"])
async def test_a_page_token_from_elsewhere_is_refused(validator: Any, token: str) -> None:
    request = board.ListLeaderboardEntriesRequest(execution_id="e1", page_token=token)
    with pytest.raises(InvalidArgument) as raised:
        await validator.leaderboard.ListLeaderboardEntries(request)
    assert raised.value.reason == "PAGE_TOKEN_INVALID"


async def test_clients_of_models_are_closed_after_their_calls(validator: Any, model: OpenAIServer) -> None:
    model.answer_with(score_answer(80))
    requests = [
        pb.EvaluateRequest(
            user_query="問い",
            submission="案",
            config=evaluation.EvaluationConfig(
                metrics=[evaluation.MetricConfig(name="Coverage", weight=1, model=f"openai:model-{number}")]
            ),
        )
        for number in range(MAX_CLIENTS + 8)
    ]
    model.hold()
    calls = [asyncio.create_task(validator.evaluator.Evaluate(request)) for request in requests]
    await asyncio.to_thread(model.wait_for_requests, len(requests))
    model.release()
    assert [(await call).result.overall_score for call in calls] == [80] * len(requests)
    await asyncio.to_thread(model.wait_for_connections, MAX_CLIENTS)
