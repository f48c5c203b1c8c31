"""The reflector with a model behind real HTTP."""

from __future__ import annotations

import asyncio
import json
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

FIELDS = ("what_happened", "cause", "better", "lesson")
OWN_FIELDS = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")


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


def build_reply(*keys: str, tags: object = (), **fields: Any) -> dict[str, Any]:
    """Return the reply to the built-in prompt."""
    lessons = [
        {"evidence_steps": [], **dict.fromkeys(FIELDS, key), "kind": "mistake", "confirms": None, **fields}
        for key in keys
    ]
    return {"analysis": "so it was", "decisive_steps": [], "lessons": lessons, "tags": list(tags)}  # type: ignore[call-overload]


def reply(*keys: str, **fields: Any) -> Answer:
    return chat_json(build_reply(*keys, **fields))


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


async def test_one_call_an_iteration_gives_lessons_votes_and_blame(model: OpenAIServer) -> None:
    tags = [{"bullet_id": "er-00001", "why": "it misled", "tag": "harmful"}]
    second = build_reply("second", evidence_steps=[2], tags=tags)
    second["decisive_steps"] = [{"step": 1, "agent": "user", "why": "it was unclear"}]
    model.script(reply("first"), chat_json(second))
    async with reflector(model) as stub:
        response = await stub.Reflect(request(max_iterations=2))
    result, usage = response.result, response.usage
    assert (usage.calls, usage.calls_without_cost, usage.cost_usd > 0) == (2, 0, True)
    assert [insight.key_insight for insight in result.insights] == ["second"]
    assert list(result.insights[0].steps) == [1]
    assert result.insights[0].kind == tpb.INSIGHT_KIND_MISTAKE
    assert (result.iteration_count, result.model, result.error) == (2, "gpt-4o-mini", "")
    (vote,) = result.bullet_evaluations
    assert (vote.bullet_id, vote.tag, vote.reason) == ("er-00001", playbook_pb2.VOTE_TAG_HARMFUL, "it misled")
    assert (result.attribution.step, result.attribution.agent) == (0, "user")
    assert {sent.body["temperature"] for sent in model.requests} == {0}
    assert [[role for role, _ in sent.messages] for sent in model.requests] == [["system", "user"]] * 2
    first_prompt, second_prompt = (sent.prompt for sent in model.requests)
    assert "[er-00001] Set {user.name} first." in first_prompt  # the bullets are those of the request
    assert "FAILURE, known from the known right answer" in first_prompt
    assert "incorrect (correct answer: 42)" in first_prompt
    assert '<step n="1" role="assistant">look</step>' in first_prompt
    assert "1. first" in second_prompt
    schema = model.requests[0].body["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"]) == ("ReflectionReply", True)


async def test_unset_iterations_are_one(model: OpenAIServer) -> None:
    model.script(reply("only"))
    async with reflector(model) as stub:
        result = (await stub.Reflect(request())).result
    assert (result.iteration_count, len(model.requests)) == (1, 1)


@pytest.mark.parametrize("text", ['```json\n{"lessons": []}\n```', 'Here it is: {"lessons": []} as asked'])
async def test_json_in_fences_and_prose_is_found(model: OpenAIServer, text: str) -> None:
    model.script(chat(text))
    async with reflector(model) as stub:
        result = (await stub.Reflect(request(bullets=[]))).result
    assert (result.iteration_count, len(result.insights)) == (1, 0)


@pytest.mark.parametrize(
    ("failure", "calls", "problem"),
    [
        (chat("no json"), 2, "no JSON object in the reply"),
        (chat(""), 2, "no JSON object in the reply"),
        (chat('{"lessons": [{"lesson": 1}]}'), 2, "does not fit ReflectionReply: lessons.0.what_happened: is missing"),
        (chat('{"analysis": "a long', finish_reason="length"), 2, "was cut off at the token limit (length)"),
        (chat("", finish_reason="content_filter"), 1, "the model declined to reply: finish reason content_filter"),
        (error(400, "refused"), 1, "HTTP 400"),
        (error(503, "overloaded"), 1, "HTTP 503"),
    ],
)
async def test_if_the_model_fails_the_rules_reflect_and_the_result_says_why(
    model: OpenAIServer, failure: Answer, calls: int, problem: str
) -> None:
    model.answer_with(failure)
    async with reflector(model, llm_retries=0) as stub:
        result = (await stub.Reflect(request())).result
    assert len(model.requests) == calls, "an invalid reply is asked for again once"
    assert (result.model, result.iteration_count) == ("offline", 1)
    assert result.error.startswith("the model gpt-4o-mini failed, and the rules reflected instead: ")
    assert problem in result.error
    assert result.status == tpb.TRAJECTORY_STATUS_FAILURE


async def test_the_complete_lessons_of_a_cut_reply_are_kept(model: OpenAIServer) -> None:
    whole = json.dumps(build_reply("first", "second"))
    model.script(chat(whole[: whole.index('"second"') + 4], finish_reason="length"))
    async with reflector(model) as stub:
        result = (await stub.Reflect(request())).result
    assert [insight.key_insight for insight in result.insights] == ["first"]
    assert result.error == "the reply was cut off at the token limit; its complete parts were used"
    assert result.model == "gpt-4o-mini"


async def test_steps_that_do_not_exist_are_asked_for_again(model: OpenAIServer) -> None:
    model.script(reply("x", evidence_steps=[7]), reply("x", evidence_steps=[1]))
    async with reflector(model, language="en") as stub:
        result = (await stub.Reflect(request(bullets=[]))).result
    assert list(result.insights[0].steps) == [0]
    assert "steps that do not exist: 7. The numbers go from 1 to 2." in model.requests[1].prompt
    assert [speaker for speaker, _ in model.requests[1].messages] == ["system", "user", "assistant", "user"]


async def test_a_datasets_own_template_is_the_one_message(model: OpenAIServer, tmp_path: Path) -> None:
    (tmp_path / "reflector").mkdir()
    (tmp_path / "reflector" / "appworld.txt").write_text("教訓を {ground_truth} から。", encoding="utf-8")
    verdict = {"bullet_id": "other", "tag": "harmful", "reason": "it misled"}
    own = {"insights": [dict.fromkeys(OWN_FIELDS, "x")]}
    model.script(chat_json(own), chat_json(verdict))
    async with reflector(model, prompts_dir=tmp_path) as stub:
        result = (await stub.Reflect(request())).result
    assert model.requests[0].messages == [("user", "教訓を 42 から。")]
    assert [insight.key_insight for insight in result.insights] == ["x"]
    assert "Set {user.name} first." in model.requests[1].prompt
    (vote,) = result.bullet_evaluations
    assert (vote.bullet_id, vote.tag) == ("er-00001", playbook_pb2.VOTE_TAG_HARMFUL)


async def test_a_long_run_is_reduced_and_the_prompt_says_so(model: OpenAIServer) -> None:
    steps = [tpb.Step(role=tpb.STEP_ROLE_TOOL, content=f"page {number} " + "x " * 1_000) for number in range(200)]
    steps[120].content = "Error: the balance is not enough"
    long = tpb.Trajectory(query="q", dataset="appworld", status=tpb.TRAJECTORY_STATUS_FAILURE, steps=steps)
    too_long = error(400, "This model's maximum context length is 6000 tokens.")
    model.script(too_long, reply("x", evidence_steps=[120]))
    async with reflector(model) as stub:
        result = (await stub.Reflect(request(trajectory=long, bullets=[]))).result
    whole, reduced = (sent.prompt for sent in model.requests)
    assert len(whole) > 300_000
    assert len(reduced) < 8_000
    assert '<step n="120" role="tool">Error: the balance is not enough</step>' in reduced
    assert "less important steps are left out" in reduced
    assert (list(result.insights[0].steps), result.error) == ([120], "")


async def test_a_stalled_model_does_not_outlast_the_caller(model: OpenAIServer) -> None:
    """Either the reflector tells in time that the rules reflected (R-12), or the caller's time is over."""
    model.answer_with(stall())
    async with reflector(model) as stub:
        try:
            reflected = await stub.Reflect(request(), timeout=1)
        except grpc.aio.AioRpcError as error:
            outcome = error.code()
        else:
            outcome = reflected.result.model
        assert outcome in (grpc.StatusCode.DEADLINE_EXCEEDED, "offline")
        await asyncio.to_thread(model.wait_until_idle)
