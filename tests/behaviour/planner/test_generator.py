"""The generator as its callers see it: over gRPC, with a model behind real HTTP, and offline."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from chassis import serve
from chassis.channels import Peers
from hansei.planner.v1 import generator_service_pb2 as pb
from hansei.planner.v1 import generator_service_pb2_grpc as rpc
from hansei.playbook.v1 import playbook_pb2
from hansei.playbook.v1.usage_pb2 import ModelUsage
from hansei.reflector.v1 import trajectory_pb2
from services.planner.bootstrap import build
from services.planner.settings import PlannerSettings
from tests.fakes.openai_answers import chat, chat_json, error, stall
from tests.fakes.openai_server import OpenAIServer

ROOT = Path(__file__).parents[3]
BULLETS = [
    playbook_pb2.Bullet(id="er-00001", section="git", content="Set user.name before the first commit."),
    playbook_pb2.Bullet(id="er-00002", section="sqlite", content="A locked database needs {timeout}."),
]


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@asynccontextmanager
async def generator_with(**settings: Any) -> AsyncIterator[Any]:
    """Yield a stub of a running planner."""
    chosen = PlannerSettings.model_validate({"prompts_dir": "no-such-folder", "llm_retry_base_seconds": 0, **settings})
    async with serve(build(chosen, Peers({}))) as running, grpc.aio.insecure_channel(running.address) as channel:
        yield rpc.GeneratorServiceStub(channel)


def with_model(model: OpenAIServer) -> dict[str, str]:
    return {
        "llm_provider": "openai",
        "llm_model": "gpt-4o-mini",
        "openai_api_key": "k",
        "openai_base_url": model.base_url,
    }


def request(**fields: Any) -> pb.GenerateRequest:
    return pb.GenerateRequest(**{"query": "Why {x}?", "dataset": "appworld", "bullets": BULLETS, **fields})


async def test_a_query_is_answered_with_cited_bullets(model: OpenAIServer) -> None:
    model.script(chat_json({"reasoning": "first\n\nsecond", "answer": "Set a name [er-00001]. 日本語"}))
    async with generator_with(**with_model(model)) as generator:
        response = await generator.Generate(request(instruction="be brief"))
    trajectory = response.trajectory
    assert (trajectory.query, trajectory.dataset) == ("Why {x}?", "appworld")  # P-113
    assert trajectory.generated_answer == "Set a name [er-00001]. 日本語"
    assert list(trajectory.reasoning_steps) == ["first", "second"]  # P-117
    assert list(trajectory.used_bullet_ids) == ["er-00001", "er-00002"]  # P-119
    assert list(trajectory.cited_bullet_ids) == ["er-00001"]  # P-120
    assert trajectory.status == trajectory_pb2.TRAJECTORY_STATUS_SUCCESS
    assert not trajectory.HasField("error_message")
    assert trajectory.created_at.seconds > 0
    assert response.model == "gpt-4o-mini"
    assert response.usage.input_tokens > 0
    assert response.usage.cost_usd == response.model_usage.cost_usd > 0
    assert response.model_usage.input_tokens == response.usage.input_tokens
    assert (response.model_usage.calls, response.model_usage.calls_without_cost) == (1, 0)
    system, human = model.requests[0].messages
    assert system == ("system", "be brief")  # P-122
    assert "[er-00002] [sqlite] A locked database needs {timeout}." in human[1]  # P-115


async def test_the_plain_style_sends_exactly_context_and_query(model: OpenAIServer) -> None:
    model.script(chat(" as it is \n"))
    bullets = [playbook_pb2.Bullet(id="a", content="X"), playbook_pb2.Bullet(id="b", content="Y {z}")]
    async with generator_with(**with_model(model)) as generator:
        response = await generator.Generate(request(query="Q", bullets=bullets, style=pb.GENERATE_STYLE_PLAIN))
    assert model.requests[0].messages == [("user", "Context:\nX\nY {z}\n\nQuery: Q\n\nAnswer:")]  # P-118
    assert response.trajectory.generated_answer == " as it is \n"


async def test_a_failing_model_is_a_trajectory_and_no_error_of_the_rpc(model: OpenAIServer) -> None:
    model.answer_with(error(503, "overloaded"))
    async with generator_with(**with_model(model), llm_retries=2) as generator:
        response = await generator.Generate(request())
    assert response.trajectory.status == trajectory_pb2.TRAJECTORY_STATUS_FAILURE  # P-121
    assert response.trajectory.generated_answer == ""
    assert response.trajectory.error_message.startswith("ModelUnavailable: model gpt-4o-mini answered HTTP 503")
    assert list(response.trajectory.used_bullet_ids) == ["er-00001", "er-00002"]
    assert not response.HasField("usage")
    assert response.model_usage == ModelUsage()
    assert len(model.requests) == 3


async def test_an_answer_of_no_use_is_paid_for(model: OpenAIServer) -> None:
    model.answer_with(chat_json({"reasoning": "no answer"}))
    async with generator_with(**with_model(model)) as generator:
        response = await generator.Generate(request())
    assert response.trajectory.status == trajectory_pb2.TRAJECTORY_STATUS_FAILURE
    assert response.model_usage.calls == len(model.requests) == 2
    assert response.model_usage.cost_usd > 0


async def test_a_stalled_model_is_reported_before_the_callers_deadline(model: OpenAIServer) -> None:
    model.answer_with(stall())
    async with generator_with(**with_model(model)) as generator:
        response = await generator.Generate(request(), timeout=4)
    assert response.trajectory.error_message.startswith("ModelDeadlineExceeded: ")  # P-121


async def test_unreported_tokens_are_unset(model: OpenAIServer) -> None:
    model.script(chat("ok", usage={}))
    async with generator_with(**with_model(model)) as generator:
        response = await generator.Generate(request())
    assert not response.HasField("usage")
    assert response.model_usage == ModelUsage(calls=1, calls_without_tokens=1, calls_without_cost=1)


async def test_offline_it_answers_by_quotation_and_marks_it() -> None:
    async with generator_with(llm_provider="offline") as generator:
        first = await generator.Generate(request(query="database locked"))
        second = await generator.Generate(request(query="database locked"))
    assert first.model == "offline"
    assert first.trajectory.generated_answer.startswith("Offline and extractive: no language model was asked.")
    assert first.trajectory.cited_bullet_ids[0] == "er-00002"
    assert first.trajectory.generated_answer == second.trajectory.generated_answer
    assert not first.HasField("usage")
    assert first.model_usage == ModelUsage()


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"query": ""}, "query"),
        ({"query": "x" * 100_001}, "query"),
        ({"dataset": "a b"}, "Invalid dataset name: 'a b'"),
        ({"bullets": BULLETS * 501}, "bullets"),
        ({"bullets": [playbook_pb2.Bullet(section="no id", content="x")]}, "bullets[0].id"),
        ({"style": 9}, "style"),
        ({"instruction": "x" * 100_001}, "instruction"),
    ],
)
async def test_a_request_that_breaks_a_rule_is_refused(fields: dict[str, Any], complaint: str) -> None:
    async with generator_with(llm_provider="offline") as generator:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await generator.Generate(request(**fields))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert complaint in str(caught.value.details())


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("openai", "OPENAI_API_KEY is not set\n"),
        ("gemini", "GOOGLE_API_KEY is not set\n"),
        ("anthropic", "ANTHROPIC_API_KEY is not set\n"),
    ],
)
async def test_without_a_model_it_may_use_it_does_not_start(provider: str, message: str) -> None:
    unset = ("HANSEI_", "OPENAI_", "GOOGLE_", "LLM_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    environment |= {
        "HANSEI_LISTEN_ADDRESS": "127.0.0.1:0",
        "LLM_PROVIDER": provider,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "stubs"))),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.planner"), env=environment, stderr=asyncio.subprocess.PIPE
    )
    _, written = await process.communicate()
    assert process.returncode == 1  # G-08, G-68
    assert message in written.decode()
    assert "Traceback" not in written.decode()
    assert "LLM_PROVIDER=offline" in written.decode()


LINES = '{"reasoning": "first\nsecond", "answer": "Set a name [er-00001].\nThen commit."}'


@pytest.mark.parametrize(
    ("replies", "answer", "reasoning"),
    [
        ([chat(LINES)], "Set a name [er-00001].\nThen commit.", ["first", "second"]),
        ([chat_json({"reasoning": ["first", "second"], "answer": ["a", "b"]})], "a\nb", ["first", "second"]),
        ([chat_json({"answer": "no reasoning"})], "no reasoning", []),
        ([chat_json({"reasoning": "r"}), chat_json({"reasoning": "r", "answer": "corrected"})], "corrected", ["r"]),
        ([chat('{"answer": "cut'), chat_json({"answer": "corrected"})], "corrected", []),
        ([chat(" plain text ")], "plain text", []),  # P-117
    ],
)
async def test_a_reply_is_repaired_or_corrected(
    model: OpenAIServer, replies: list[Any], answer: str, reasoning: list[str]
) -> None:
    model.script(*replies)
    async with generator_with(**with_model(model)) as generator:
        trajectory = (await generator.Generate(request())).trajectory
    assert trajectory.generated_answer == answer
    assert list(trajectory.reasoning_steps) == reasoning
    assert model.requests[0].body["response_format"]["json_schema"]["strict"]
    assert len(model.requests) == len(replies)


async def test_raw_json_is_never_an_answer(model: OpenAIServer) -> None:
    model.answer_with(chat('{"result": 1}'))
    async with generator_with(**with_model(model)) as generator:
        trajectory = (await generator.Generate(request())).trajectory
    assert trajectory.generated_answer == ""
    assert trajectory.error_message.startswith("ReplyNotStructured: ")  # P-121
    assert len(model.requests) == 2
