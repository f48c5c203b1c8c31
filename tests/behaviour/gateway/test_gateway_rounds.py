"""Rounds as a caller sees them: real services, and a model behind real HTTP that answers from a script."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from hansei.gateway.v1 import rounds_service_pb2 as rounds
from hansei.gateway.v1 import rounds_service_pb2_grpc
from hansei.validator.v1 import leaderboard_service_pb2 as leaderboard
from hansei.validator.v1 import leaderboard_service_pb2_grpc
from tests.fakes.http_wire import WireResponse
from tests.fakes.openai_answers import ModelRequest, chat_json, error, stall
from tests.fakes.openai_server import OpenAIServer
from tests.support import systems

SECONDS = 60
VERDICTS = ("JudgedScore", "ImprovementJudgment")
PROMPT = "How {x} and {{ y }}? ナレッジ"
SCORES = {"alpha": [80, 85], "beta": [80, 85, 85, 70, 60], "gamma": [90, 50]}
"""Scores of the teams by round; a team's answers are its instruction and the number of the round."""


def answer_by_schema(request: ModelRequest) -> WireResponse:
    """Answer as generator, evaluators or judge, according to the requested schema."""
    shape = _schema_name(request)
    if shape == "JudgedScore":
        name, number = request.prompt.rpartition("# 提出内容\n")[2].split()
        return chat_json({"score": SCORES[name][int(number) - 1], "evaluator_comment": "so so"})(request)
    if shape == "ImprovementJudgment":
        goes_on = "beta 1" in request.prompt
        return chat_json({"should_continue": goes_on, "reasoning": "seen", "confidence_score": 0.5})(request)
    return _submission(request)


def _schema_name(request: ModelRequest) -> str:
    return str(request.body.get("response_format", {}).get("json_schema", {}).get("name"))


def _submission(request: ModelRequest) -> WireResponse:
    instruction = dict(request.messages)["system"]
    if instruction == "broken":
        return error(400, "no such model")(request)
    if instruction == "stalled":
        return stall()(request)
    number = re.search(r"# ラウンド\n(\d+)", request.prompt)
    assert number is not None
    return chat_json({"reasoning": "because", "answer": f"{instruction} {number[1]}"})(request)


@pytest.fixture(scope="module")
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer(otherwise=answer_by_schema) as running:
        yield running


@dataclass(frozen=True)
class Caller:
    """The services of rounds at one address, and the prompts of the model."""

    rounds: Any
    leaderboard: Any
    model: OpenAIServer

    def run(self, *instructions: str, **fields: Any) -> tuple[list[rounds.RoundFinished], rounds.RoundsResult]:
        """Events and result of teams that bear the names of their instructions."""
        teams = [rounds.Team(team_id=name, team_name=f"チーム {name}", instruction=name) for name in instructions]
        request = rounds.RunRoundsRequest(**{"user_prompt": PROMPT, "teams": teams, **fields})
        *events, last = self.rounds.RunRounds(request, timeout=SECONDS)
        assert last.HasField("result")
        return [event.round_finished for event in events], last.result

    def entries(self, execution_id: str) -> list[leaderboard.LeaderBoardEntry]:
        """Return the rows of an execution by team and round."""
        request = leaderboard.ListLeaderboardEntriesRequest(execution_id=execution_id, page_size=100)
        return list(self.leaderboard.ListLeaderboardEntries(request, timeout=SECONDS).entries)


@pytest.fixture(scope="module", params=sorted(systems.FORMS))
def call(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model: OpenAIServer
) -> Iterator[Caller]:
    data = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    environment = {
        "LLM_PROVIDER": "openai",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": model.base_url,
        "EVALUATOR_MODEL": "openai:scripted",
        "JUDGE_MODEL": "openai:scripted",
        "LLM_RETRIES": "0",
        "TZ": "Asia/Tokyo",
    }
    with systems.FORMS[request.param](data, **environment) as system, grpc.insecure_channel(system.address) as channel:
        yield Caller(
            rounds_service_pb2_grpc.RoundsServiceStub(channel),
            leaderboard_service_pb2_grpc.LeaderboardServiceStub(channel),
            model,
        )


@pytest.fixture
def execution() -> str:
    return str(uuid.uuid4())


def test_teams_continue_by_the_judge_and_the_best_is_found(call: Caller, execution: str) -> None:
    events, result = call.run("alpha", "beta", execution_id=execution)
    alpha, beta = result.teams
    assert (alpha.rounds, alpha.best_round.round_number, alpha.exit_reason) == (2, 2, "no_improvement_expected")
    assert (beta.rounds, beta.best_round.round_number, beta.exit_reason) == (5, 3, "max_rounds_reached")  # G-60, G-61
    assert sorted((event.team_id, event.round.round_number) for event in events) == [
        *(("alpha", number) for number in (1, 2)),
        *(("beta", number) for number in range(1, 6)),
    ]  # G-46
    assert [(row.team_id, row.max_score, row.total_rounds) for row in result.ranking] == [
        ("alpha", 85, 2),
        ("beta", 85, 5),
    ]  # V-70
    assert (result.status, result.best_team_id, result.best_submission) == (
        rounds.ROUNDS_STATUS_COMPLETED,
        "alpha",
        "alpha 2",
    )  # G-64


def test_the_leaderboard_keeps_every_round_and_one_final_row_a_team(call: Caller, execution: str) -> None:
    call.run("alpha", "beta", execution_id=execution)
    rows = call.entries(execution)
    assert [(row.key.team_id, row.key.round_number, row.score) for row in rows] == [
        *(("alpha", number, score) for number, score in enumerate(SCORES["alpha"], 1)),
        *(("beta", number, score) for number, score in enumerate(SCORES["beta"], 1)),
    ]
    assert [(r.key.team_id, r.key.round_number, r.exit_reason) for r in rows if r.final_submission] == [
        ("alpha", 2, "no_improvement_expected"),
        ("beta", 3, "max_rounds_reached"),
    ]  # G-61, G-72
    judged = [(row.judgement.should_continue, row.judgement.reasoning) for row in rows]
    assert judged == [
        (True, "Below minimum rounds (1 < 2)"),
        (False, "seen"),
        (True, "Below minimum rounds (1 < 2)"),
        *[(True, "seen")] * 3,
        (False, "seen"),
    ]  # G-55, G-57, G-58
    assert [metric.metric_name for metric in rows[0].score_details.metrics] == [
        "ClarityCoherence",
        "Coverage",
        "Relevance",
    ]  # V-50, V-69


def test_evaluators_see_the_users_query_and_nothing_of_the_rounds(call: Caller) -> None:
    before = len(call.model.requests)
    call.run("alpha")
    judge_requests = [request for request in call.model.requests[before:] if "JudgedScore" in str(request.body)]
    assert len(judge_requests) == 6
    for request in judge_requests:
        assert f"# ユーザクエリ\n{PROMPT}\n\n# 提出内容\nalpha " in request.prompt  # G-52, G-67
        assert not re.search("ラウンド|順位|スコア", request.prompt)  # G-71


def test_the_prompt_of_a_team_has_its_history_and_position(call: Caller) -> None:
    before = len(call.model.requests)
    call.run("alpha")
    first, second = (r.prompt for r in call.model.requests[before:] if _schema_name(r) not in VERDICTS)
    assert "まだ過去のSubmissionはありません。" in first
    assert "まだランキング情報がありません。" in first  # B-53
    assert "**スコア:** 80.00/100" in second
    assert "1    | alpha    | チーム alpha | 80.00 ← あなたのチーム" in second
    assert "+09:00" in second  # B-28


def test_a_team_that_fails_ends_alone(call: Caller, execution: str) -> None:
    _, result = call.run("broken", "gamma", execution_id=execution, max_rounds=2)
    broken, gamma = result.teams
    assert (broken.status, broken.rounds, broken.exit_reason) == (rounds.ROUNDS_STATUS_FAILED, 0, "")  # G-53, G-63
    assert "400" in broken.error
    assert (gamma.status, gamma.best_round.round_number) == (rounds.ROUNDS_STATUS_COMPLETED, 1)  # G-69
    assert result.best_team_id == "gamma"
    assert {row.key.team_id for row in call.entries(execution)} == {"gamma"}


def test_a_judgement_that_fails_keeps_the_best_round(call: Caller, execution: str) -> None:
    _, result = call.run("gamma", execution_id=execution, judge_model="nobody")
    (gamma,) = result.teams
    assert (gamma.exit_reason, gamma.best_round.round_number, gamma.rounds) == ("partial_failure", 1, 2)  # G-63
    assert gamma.error == "Invalid model id 'nobody': expected provider:model-name"  # V-55
    (final,) = [row for row in call.entries(execution) if row.final_submission]
    assert (final.key.round_number, final.exit_reason) == (1, "partial_failure")  # G-72


def test_a_submission_that_takes_too_long_is_cut_off(call: Caller) -> None:
    _, result = call.run("stalled", submission_timeout=Duration(nanos=200_000_000))
    assert result.status == rounds.ROUNDS_STATUS_FAILED  # G-65: and the call is OK
    assert result.teams[0].error == "the submission of round 1 took longer than submission_timeout (0.2 s)"  # G-62


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_rounds": 3, "max_rounds": 2}, "min_rounds (3) must be <= max_rounds (2)"),  # G-47
        ({"user_prompt": " "}, "user_prompt cannot be empty"),
        ({"teams": [rounds.Team(team_id="a", team_name="A")] * 2}, "Duplicate team ids found: a"),  # G-46
        ({"teams": []}, "teams"),
        ({"max_rounds": 11}, "max_rounds"),
    ],
)
def test_an_invalid_round_is_refused(call: Caller, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call.run("alpha", **fields)
    refused: Any = caught.value
    assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.details().startswith(message)


def test_an_execution_is_run_once(call: Caller, execution: str) -> None:
    call.run("alpha", execution_id=execution)
    with pytest.raises(grpc.RpcError) as caught:
        call.run("alpha", execution_id=execution)
    refused: Any = caught.value
    assert refused.code() == grpc.StatusCode.ALREADY_EXISTS
    assert sum(row.final_submission for row in call.entries(execution)) == 1  # G-72
