"""Plans with a prefix, over gRPC and in both databases: whom they tell it, and that there is room for it (ADR 070)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from libs.storage.idempotency import IdempotencyKey
from services.planner.domain.plans import create_plan_id, utc_now
from services.planner.tests.parts import ScriptedTool, agent_plan, agent_step, answer, executor
from services.planner.tests.replicas import PROCEED, question, replica, until_quiet
from services.planner.usecases.ports import ExecutionFilter, Feedback
from tests.support.planner_service import Tools, events, expect_error, plan, running, step, tools_are_known

LONGEST = "a" * 127 + "-"
UUID = "6a1c9b1e-4f0e-4c55-8d7b-0f3c2a9e1d77"


async def test_the_longest_ids_are_kept(database_location: str) -> None:
    request = IdempotencyKey(UUID, "Method", bytes(32), LONGEST)
    async with replica(database_location, executor(ScriptedTool({"s1": answer("one", 0.5)}))) as executions:
        plan_message = agent_plan(agent_step(1), plan_id=create_plan_id(LONGEST))
        execution_id = await executions.start(plan_message, None, request)
        assert execution_id == await executions.start(plan_message, None, request)  # a replay
        await until_quiet(executions, execution_id)
        await executions.answer(execution_id, PROCEED, *await question(executions, execution_id), None)
        await until_quiet(executions, execution_id)
        await executions.store.add_feedback(Feedback(0.5, True, 0.0, execution_id, 1), utc_now(), None)
        for other in ("Acme--", "acme--", "acme_-"):
            await executions.start(agent_plan(agent_step(1), plan_id=create_plan_id(other)), None, None)
        listed_prefixes = {
            prefix: [
                summary.execution_id[:-12]
                for summary in await executions.store.list_executions(ExecutionFilter(prefix=prefix))
            ]
            for prefix in (LONGEST, "acme--", "acme_-")
        }
    assert listed_prefixes == {prefix: [prefix] for prefix in listed_prefixes}


async def test_a_tool_service_gets_the_prefix_of_the_plan(tmp_path: Path) -> None:
    tools = Tools()
    plan_message = plan(step(1, pb.ACTION_WEB_SEARCH, "空"))
    async with running(tmp_path, tools) as stub:
        await tools_are_known(stub)
        tools.calls.clear()
        for prefix in ("acme--", ""):
            await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=plan_message, prefix=prefix)))
    assert [call.input.prefix for call in tools.calls] == ["acme--", ""]
    assert [call.idempotency_key.startswith("acme--") for call in tools.calls] == [True, False]


async def test_a_request_id_of_feedback_is_that_of_a_tenant(tmp_path: Path) -> None:
    tools = Tools()
    plan_message = plan(step(1, pb.ACTION_WEB_SEARCH, "空"))
    async with running(tmp_path, tools) as stub:
        await tools_are_known(stub)
        for prefix, correct in (("acme--", True), ("other--", False)):
            request = service_pb.ExecutePlanRequest(plan=plan_message, prefix=prefix)
            execution_id = (await events(stub.ExecutePlan(request)))[0].execution_id
            feedback = service_pb.SubmitFeedbackRequest(
                execution_id=execution_id, step_id=1, correct=correct, request_id=UUID
            )
            for _ in range(2):  # the second one is a repetition
                response = await stub.SubmitFeedback(feedback)
        assert response.records == 2


@pytest.mark.parametrize("prefix", ["acme", "acme--x", "acme.-", "acme--\n", "é-", "-" * 129])
async def test_a_prefix_ends_in_a_hyphen_and_holds_what_names_hold(tmp_path: Path, prefix: str) -> None:
    async with running(tmp_path) as stub:
        calls: list[Any] = [
            stub.CreatePlan(service_pb.CreatePlanRequest(query="q", prefix=prefix)),
            stub.ListExecutions(service_pb.ListExecutionsRequest(prefix=prefix)),
        ]
        assert [(await expect_error(call))[0] for call in calls] == [grpc.StatusCode.INVALID_ARGUMENT] * 2


async def test_a_plan_of_another_prefix_is_refused_before_it_is_kept(tmp_path: Path) -> None:
    looking = plan(step(1, pb.ACTION_RAG_SEARCH, "空", collection="evil--a"))
    foreign = plan(step(1, pb.ACTION_RAG_SEARCH, "空"), plan_id="evil--0a1b2c3d4e5f")
    async with running(tmp_path) as stub:
        for plan_message in (looking, foreign):
            request = service_pb.RunPlanRequest(plan=plan_message, prefix="acme--", request_id=UUID)
            code, text = await expect_error(stub.RunPlan(request))
            assert (code, "does not begin with 'acme--'" in text) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        assert not (await stub.ListExecutions(service_pb.ListExecutionsRequest())).executions
