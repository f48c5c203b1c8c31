"""The reflector with a model behind real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from chassis import serve
from chassis.channels import Peers
from hansei.playbook.v1 import playbook_pb2
from hansei.reflector.v1 import reflector_service_pb2 as pb
from hansei.reflector.v1 import reflector_service_pb2_grpc as rpc
from hansei.reflector.v1 import trajectory_pb2 as tpb
from services.reflector.bootstrap import build
from services.reflector.settings import ReflectorSettings
from tests.fakes.openai_answers import Answer, chat, chat_json, error, stall
from tests.fakes.openai_server import OpenAIServer

FIELDS = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@asynccontextmanager
async def reflector(model: OpenAIServer, **settings: Any) -> AsyncIterator[Any]:
    """Return a stub of a running reflector that asks `model`."""
    chosen = ReflectorSettings.model_validate(
        {
            "llm_provider": "openai",
            "llm_model": "gpt-4o-mini",
            "openai_api_key": "k",
            "openai_base_url": model.base_url,
            "llm_retry_base_seconds": 0,
            "prompts_dir": "no-such-folder",
            **settings,
        }
    )
    async with serve(build(chosen, Peers({}))) as running, grpc.aio.insecure_channel(running.address) as channel:
        yield rpc.ReflectorServiceStub(channel)


def insights(*keys: str, **fields: Any) -> Answer:
    return chat_json({"insights": [{**dict.fromkeys(FIELDS, key), **fields} for key in keys]})


def request(**fields: Any) -> pb.ReflectRequest:
    trajectory = tpb.Trajectory(
        query="Why {x}?",
        dataset="appworld",
        generated_answer='{"a": 1}',
        reasoning_steps=["look", "decide"],
        used_bullet_ids=["er-00001"],
        status=tpb.TRAJECTORY_STATUS_FAILURE,
    )
    bullet = playbook_pb2.Bullet(id="er-00001", section="git", content="Set {user.name} first.")
    defaults = {"trajectory": trajectory, "dataset": "appworld", "ground_truth": "42", "bullets": [bullet]}
    return pb.ReflectRequest(**{**defaults, **fields})


async def test_iterations_and_verdicts_are_calls_of_their_own(model: OpenAIServer) -> None:
    verdict = {"bullet_id": "other", "tag": "harmful", "reason": "it misled"}
    model.script(insights("first"), insights("second", steps=[2]), chat_json(verdict))
    async with reflector(model) as stub:
        response = await stub.Reflect(request(max_iterations=2))
    result, usage = response.result, response.usage
    assert (usage.calls, usage.calls_without_cost, usage.cost_usd > 0) == (3, 0, True)
    assert [insight.key_insight for insight in result.insights] == ["second"]
    assert list(result.insights[0].steps) == [1]
    assert (result.iteration_count, result.model) == (2, "gpt-4o-mini")
    (vote,) = result.bullet_evaluations
    assert (vote.bullet_id, vote.tag) == ("er-00001", playbook_pb2.VOTE_TAG_HARMFUL)
    assert len(model.requests) == 3
    assert "Set {user.name} first." in model.requests[-1].prompt  # the bullets are those of the request
    assert {sent.body["temperature"] for sent in model.requests} == {0}  # also of the verdict
    assert all(len(request.messages) == 1 and request.messages[0][0] == "user" for request in model.requests)
    assert "1. look\n2. decide" in model.requests[0].prompt
    assert "- first" in model.requests[1].prompt
    assert "[er-00001] git\nSet {user.name} first." in model.requests[2].prompt
    assert model.requests[0].body["response_format"]["json_schema"]["name"] == "InsightsReply"


async def test_unset_iterations_are_one(model: OpenAIServer) -> None:
    model.script(insights("only"), chat_json({"tag": "neutral", "reason": "unused"}))
    async with reflector(model) as stub:
        result = (await stub.Reflect(request())).result
    assert (result.iteration_count, len(model.requests)) == (1, 2)


@pytest.mark.parametrize("text", ['```json\n{"insights": []}\n```', 'Here it is: {"insights": []} as asked'])
async def test_json_in_fences_and_prose_is_found(model: OpenAIServer, text: str) -> None:
    model.script(chat(text))
    async with reflector(model) as stub:
        result = (await stub.Reflect(request(bullets=[]))).result
    assert (result.iteration_count, len(result.insights)) == (1, 0)


@pytest.mark.parametrize(
    "reply", [chat("no json"), chat("{"), chat("[1]"), chat(""), error(400, "refused"), error(503, "overloaded")]
)
async def test_a_model_that_fails_costs_iterations_but_no_error(model: OpenAIServer, reply: Answer) -> None:
    model.answer_with(reply)
    async with reflector(model, llm_retries=0) as stub:
        result = (await stub.Reflect(request(max_iterations=2))).result
    assert (result.iteration_count, len(result.insights)) == (0, 0)
    (vote,) = result.bullet_evaluations
    assert vote.tag == playbook_pb2.VOTE_TAG_NEUTRAL
    assert vote.reason.startswith("Evaluation failed: ")
    assert result.status == tpb.TRAJECTORY_STATUS_FAILURE


async def test_steps_that_do_not_exist_are_asked_for_again(model: OpenAIServer) -> None:
    model.script(insights("x", steps=[7]), insights("x", steps=[1]))
    async with reflector(model, language="en") as stub:
        result = (await stub.Reflect(request(bullets=[]))).result
    assert list(result.insights[0].steps) == [0]
    assert "steps that do not exist: 7. The numbers go from 1 to 2." in model.requests[1].prompt
    assert [speaker for speaker, _ in model.requests[1].messages] == ["user", "assistant", "user"]


async def test_a_datasets_own_template_is_used(model: OpenAIServer, tmp_path: Path) -> None:
    (tmp_path / "reflector").mkdir()
    (tmp_path / "reflector" / "appworld.txt").write_text("教訓を {ground_truth} から。", encoding="utf-8")
    model.script(insights("x"))
    async with reflector(model, prompts_dir=tmp_path) as stub:
        await stub.Reflect(request(bullets=[]))
    assert model.requests[0].prompt == "教訓を 42 から。"


async def test_a_long_trajectory_is_reduced_and_the_prompt_states_it(model: OpenAIServer) -> None:
    steps = [tpb.Step(role=tpb.STEP_ROLE_TOOL, content=f"page {number} " + "x" * 2_000) for number in range(200)]
    steps[120].content = "Error: the balance is not enough"
    long = tpb.Trajectory(query="q", dataset="appworld", status=tpb.TRAJECTORY_STATUS_FAILURE, steps=steps)
    model.script(insights("x", steps=[120]))
    async with reflector(model, reflector_transcript_chars=5_000) as stub:
        result = (await stub.Reflect(request(trajectory=long, bullets=[]))).result
    prompt = model.requests[0].prompt
    assert len(prompt) < 8_000
    assert "[120] tool: Error: the balance is not enough" in prompt
    assert "less important steps are left out" in prompt
    assert list(result.insights[0].steps) == [120]


async def test_a_stalled_model_does_not_outlast_the_caller(model: OpenAIServer) -> None:
    """Either the reflector tells in time that no iteration was completed (R-12), or the caller's time is over."""
    model.answer_with(stall())
    async with reflector(model) as stub:
        try:
            reflected = await stub.Reflect(request(), timeout=1)
        except grpc.aio.AioRpcError as error:
            outcome = error.code()
        else:
            outcome = reflected.result.iteration_count
        assert outcome in (grpc.StatusCode.DEADLINE_EXCEEDED, 0)
        await asyncio.to_thread(model.wait_until_idle)
