"""The planner with a model behind real HTTP: plans, answers, evaluations, their cost, and broken models."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import text_format

from chassis import serve
from chassis.channels import Peers
from chassis.settings import BadSetting
from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from hansei.planner.v1 import planner_service_pb2_grpc as rpc
from services.planner.bootstrap import build
from services.planner.settings import PlannerSettings
from tests.fakes.openai_answers import chat, chat_json, error
from tests.fakes.openai_server import OpenAIServer
from tests.support.planner_service import answer

QUERY = "AとBの違いを比較して詳しく教えて"
PLAN: dict[str, Any] = {
    "requires_confirmation": False,
    "steps": [
        {"step_id": 1, "action": "reasoning", "description": "first", "query": "what is A?"},
        {"step_id": 2, "action": "reasoning", "description": "second", "depends_on": [1]},
    ],
}


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@asynccontextmanager
async def planner_with(
    model: OpenAIServer, folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> AsyncIterator[Any]:
    """A stub of a planner whose planning model is the shared one; `changes` are other settings."""
    monkeypatch.setenv("GRACE_LLM_RETRY_MAX_RETRIES", "0")
    fields = {
        "llm_provider": "openai",
        "llm_model": "gpt-4o-mini",
        "openai_api_key": "k",
        "openai_base_url": model.base_url,
        "planner_database_url": str(folder / "planner.db"),
        "grace_config": folder / "none.yml",
        "search_addr": "127.0.0.1:1",
        "curator_addr": "127.0.0.1:1",
        **changes,
    }
    settings = PlannerSettings.model_validate(fields)
    peers = Peers(settings.list_peer_addresses())
    async with serve(build(settings, peers)) as running, grpc.aio.insecure_channel(running.address) as channel:
        yield rpc.PlannerServiceStub(channel)
    await peers.close()


def _judge(supported: float, complete: float) -> Any:
    return chat_json({"reason": "because", "supported": supported, "complete": complete})


async def test_a_plan_of_the_model_runs_with_the_model(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # P-15 to P-17, P-40, P-57, P-69, P-127
    model.script(chat_json(PLAN), chat("A is a."), _judge(0.9, 1), chat("B is b."), _judge(0.95, 0.9))
    async with planner_with(model, tmp_path, monkeypatch) as stub:
        made = await stub.CreatePlan(service_pb.CreatePlanRequest(query=QUERY, hints="be quick"))
        assert (made.from_template, made.plan.original_query, made.plan.complexity) == (False, QUERY, 0.75)
        request = service_pb.ExecutePlanRequest(plan=made.plan)
        events = await _events(stub.ExecutePlan(request))
        finished = [e.step_finished for e in events if e.WhichOneof("event") == "step_finished"]
        assert finished[0].confidence.breakdown["llm_self_eval"] == 0.9
        execution = await stub.GetExecution(service_pb.GetExecutionRequest(execution_id=made.plan.plan_id))
    prompts = [request.body["messages"][-1]["content"] for request in model.requests]
    assert "be quick" in prompts[0]
    assert "what is A?" in prompts[1]
    judged = re.sub(r"<(/?\w+)-\w+>", r"<\1>", prompts[2])
    assert judged.startswith("<asked>\nwhat is A?\n</asked>")
    assert judged.endswith("<output>\nA is a.\n</output>")
    assert QUERY not in judged
    judge_body, plan_body = model.requests[2].body, model.requests[0].body
    assert (judge_body["temperature"], "temperature" in plan_body) == (0, False)
    assert list(judge_body["response_format"]["json_schema"]["schema"]["properties"]) == [
        "reason",
        "supported",
        "complete",
    ]
    assert execution.execution.usage.tokens > 0
    assert execution.execution.usage.cost_micro_usd > 0


ONE_STEP = pb.Plan(
    plan_id="0123456789ab",
    original_query="q",
    complexity=0.5,
    steps=[pb.PlanStep(step_id=1, action=pb.ACTION_REASONING, description="d", query="q")],
)


async def test_a_limit_of_money_needs_a_known_price(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = pb.Budget(max_cost_micro_usd=50_000)
    async with planner_with(model, tmp_path, monkeypatch, llm_model="my-model") as stub:
        for call in (
            stub.RunPlan(service_pb.RunPlanRequest(plan=ONE_STEP, budget=limited)),
            _events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=ONE_STEP, budget=limited))),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            for part in ("budget.max_cost_micro_usd is 50000", "my-model", "LLM_PRICES", "allow_unknown_price"):
                assert part in str(refused.value.details())
        assert (await stub.ListExecutions(service_pb.ListExecutionsRequest())).executions == []
        assert model.requests == []
        model.answer_with(chat("0.9"))
        limited.allow_unknown_price = True
        await stub.RunPlan(service_pb.RunPlanRequest(plan=ONE_STEP, budget=limited))
        assert model.requests


@pytest.mark.parametrize(
    "settings",
    [{"llm_model": "gpt-4o-mini"}, {"llm_model": "my-model", "llm_prices": {"my-model": {"input": 1}}}],
)
async def test_a_limit_of_money_is_accepted_with_a_known_price(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    model.answer_with(chat("0.9"))
    budget = pb.Budget(max_cost_micro_usd=50_000)
    async with planner_with(model, tmp_path, monkeypatch, **settings) as stub:
        await stub.RunPlan(service_pb.RunPlanRequest(plan=ONE_STEP, budget=budget))
    assert model.requests


async def test_the_planner_does_not_start_with_a_limit_of_money_and_an_unknown_price(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadSetting, match=r"HANSEI_PLANNER_MAX_COST_USD is 2.5, .* my-model .* LLM_PRICES"):
        async with planner_with(model, tmp_path, monkeypatch, llm_model="my-model", planner_max_cost_usd=2.5):
            pass


@pytest.mark.parametrize("answer", [error(500, "down"), chat("no json"), chat_json({"steps": []})])
async def test_a_broken_model_leaves_the_template(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:  # P-19, P-20
    model.script(answer)
    async with planner_with(model, tmp_path, monkeypatch) as stub:
        made = await stub.CreatePlan(service_pb.CreatePlanRequest(query=QUERY))
    assert made.from_template
    assert made.template_reason
    assert made.plan.complexity == 0.5
    assert [s.action for s in made.plan.steps] == [pb.ACTION_RAG_SEARCH, pb.ACTION_REASONING]


async def test_the_usage_of_making_and_changing_a_plan_comes_back(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.script(chat_json(PLAN), chat("no plan"), chat_json(PLAN))
    async with planner_with(model, tmp_path, monkeypatch) as stub:
        made = await stub.CreatePlan(service_pb.CreatePlanRequest(query=QUERY))
        failed = await stub.RefinePlan(service_pb.RefinePlanRequest(plan=made.plan, feedback="shorter"))
        refined = await stub.RefinePlan(service_pb.RefinePlanRequest(plan=made.plan, feedback="shorter"))
        simple = await stub.CreatePlan(service_pb.CreatePlanRequest(query="空"))
    assert failed.reason
    for response in (made, failed, refined):
        usage = response.model_usage
        assert (usage.calls, usage.calls_without_tokens, usage.calls_without_cost) == (1, 0, 0)
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0
        assert usage.cost_usd > 0
    assert simple.HasField("model_usage")
    assert simple.model_usage.calls == 0


async def test_an_agent_asks_a_person_and_uses_the_answer(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.script(
        chat_json({"tool": "run_legacy_agent", "query": "again"}),
        chat_json({"tool": "ask_user", "query": "Which size?"}),
        chat_json({"answer": "Size 42 fits."}),
    )
    step = pb.PlanStep(step_id=1, action=pb.ACTION_RUN_LEGACY_AGENT, description="d", query="Which shoes?")
    plan = pb.Plan(plan_id="0123456789ab", original_query="Which shoes?", complexity=0.5, steps=[step])
    async with planner_with(model, tmp_path, monkeypatch) as stub:
        *_, questions = await _events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=plan)))
        assert questions.intervention_requested.question == "Which size?"
        *_, ended = await _events(stub.ResumePlan(answer(questions, user_input="42")))
    assert (ended.finished.final_answer, len(model.requests)) == ("Size 42 fits.", 3)
    assert "Unknown tool: run_legacy_agent" in model.requests[1].prompt
    assert "42" in model.requests[2].prompt


async def test_cancel_reaches_the_call_of_the_model(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # P-131
    model.answer_with(chat("A is a."))
    model.hold()
    async with planner_with(model, tmp_path, monkeypatch) as stub:
        steps = [pb.PlanStep(step_id=i, action=pb.ACTION_REASONING, description="d", query="q") for i in (1, 2)]
        steps[1].depends_on.append(1)
        plan = pb.Plan(plan_id="0123456789ab", original_query="q", complexity=0.5, steps=steps)
        following = asyncio.ensure_future(_events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=plan))))
        await asyncio.to_thread(model.wait_for_requests, 1)
        await stub.CancelExecution(service_pb.CancelExecutionRequest(execution_id=plan.plan_id, reason="enough"))
        events = await following
        await asyncio.to_thread(model.wait_until_idle)  # the planner hung up, although the model has not answered
        model.release()
    assert events[-1].finished.overall_status == pb.EXECUTION_STATUS_CANCELLED
    assert [e.step_started.step_id for e in events if e.WhichOneof("event") == "step_started"] == [1]
    assert len(model.requests) == 1  # nothing starts afterwards


async def _events(stream: Any) -> list[pb.ExecutionEvent]:
    return [response.event async for response in stream]


async def test_an_english_user_meets_no_japanese(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts, questions, replans and results have the language of the request."""
    model.script(
        chat_json(PLAN),
        chat(""),  # the first step fails, and is replanned
        chat_json({"steps": [PLAN["steps"][0] | {"query": "what is an A?"}, PLAN["steps"][1]]}),
        chat("A is a."),
        chat("0.1"),  # low confidence: a question to a person
        chat("0.1"),
        chat("B is b."),
        chat("0.9"),
        chat("0.9"),
    )
    async with planner_with(model, tmp_path, monkeypatch) as stub:
        query = "Compare A with B in detail."
        made = await stub.CreatePlan(service_pb.CreatePlanRequest(query=query, hints="be quick"))
        found = await _events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=made.plan)))
        assert found[-1].WhichOneof("event") == "intervention_requested"
        found += await _events(stub.ResumePlan(answer(found[-1], selected_option="Yes, continue")))
    system = model.requests[0].messages[0][1]
    for line in ("- rag_search: Search the knowledge base.", "- run_legacy_agent: Hand a task to an agent"):
        assert line in system
    assert any(event.WhichOneof("event") == "replanned" for event in found)
    assert [text for request in model.requests for _, text in request.messages if not text.isascii()] == []
    assert [event for event in found if not text_format.MessageToString(event, as_utf8=True).isascii()] == []


async def test_a_plan_without_its_tool_or_collection_is_refused(
    model: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # P-26
    step = pb.PlanStep(step_id=1, action=pb.ACTION_WEB_SEARCH, description="d", fallback=pb.ACTION_CODE_EXECUTE)
    plan = pb.Plan(original_query="Which shoes?", complexity=0.5, steps=[step])
    async with planner_with(model, tmp_path, monkeypatch) as stub:
        calls = [
            stub.RunPlan(service_pb.RunPlanRequest(plan=plan)),
            stub.RefinePlan(service_pb.RefinePlanRequest(plan=plan, feedback="more")),
        ]
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            for action in ("web_search", "code_execute"):
                assert f"Step 1: there is no tool for the action {action}; the present ones: ask_user" in str(
                    caught.value.details()
                )
        assert not (await stub.ListExecutions(service_pb.ListExecutionsRequest())).executions
