"""The planner as its clients see it: over gRPC, with a tool service of others, through restarts."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import grpc
import pytest

from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1 import planner_service_pb2 as service_pb
from tests.support.planner_service import (
    ASK,
    Tools,
    answer,
    events,
    expect_error,
    kinds,
    plan,
    running,
    step,
    tools_are_known,
)


async def test_an_offline_plan_is_marked_as_offline(tmp_path: Path) -> None:  # P-15, P-20
    async with running(tmp_path) as stub:
        made = await stub.CreatePlan(service_pb.CreatePlanRequest(query="AとBの違いを比較して詳しく教えて"))
        assert made.from_template
        assert made.template_reason == "offline: no model is configured"
        assert [s.action for s in made.plan.steps] == [pb.ACTION_RAG_SEARCH, pb.ACTION_REASONING]
        estimated = await stub.EstimateComplexity(service_pb.EstimateComplexityRequest(query="なぜ空は青い？"))
        assert (estimated.complexity, estimated.needs_model) == (0.4, True)
        refined = await stub.RefinePlan(service_pb.RefinePlanRequest(plan=made.plan, feedback="more"))
        assert (refined.plan, refined.changed) == (made.plan, False)


async def test_a_plan_runs_with_a_tool_of_others(tmp_path: Path) -> None:  # issue: ToolService
    tools = Tools()
    async with running(tmp_path, tools) as stub:
        await tools_are_known(stub)
        tools.calls.clear()
        steps = (step(1, pb.ACTION_WEB_SEARCH, "空の色"), step(2, pb.ACTION_REASONING, "空は何色？", 1))
        found = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=plan(*steps))))
        (call,) = tools.calls
        assert (call.name, call.input.query) == ("web_search", "空の色")
        assert call.idempotency_key == f"{found[0].execution_id}:1:1"
        while kinds(found)[-1] == "intervention_requested":
            found += await events(stub.ResumePlan(answer(found[-1], action=pb.INTERVENTION_ACTION_PROCEED)))
        assert [event.sequence for event in found] == list(range(1, len(found) + 1))
        result = found[-1].finished
        assert result.overall_status == pb.EXECUTION_STATUS_SUCCESS
        assert "空は青い。 [web]" in result.final_answer
        assert list(result.step_results[1].sources) == ["web"]


@pytest.mark.parametrize(
    ("query", "error"),
    [("fail", "refused"), ("huge", "Tool output too large: 300000 characters, at most 262144 are allowed")],
)
async def test_a_bad_tool_is_reported(tmp_path: Path, query: str, error: str) -> None:
    tools = Tools()
    async with running(tmp_path, tools) as stub:
        await tools_are_known(stub)
        made = await stub.RunPlan(service_pb.RunPlanRequest(plan=plan(step(1, pb.ACTION_CODE_EXECUTE, query))))
        events_of = await events(
            stub.WatchExecution(service_pb.WatchExecutionRequest(execution_id=made.result.plan_id))
        )
        errors = [event.tool_returned.error for event in events_of if event.WhichOneof("event") == "tool_returned"]
        assert errors[0] == error
        assert made.result.replan_count == 1  # the template fails, too, and an identical plan is not tried again
        assert "offline: no model is configured" in made.result.reason


async def test_cancel_reaches_the_tool_service(tmp_path: Path) -> None:  # P-131
    tools = Tools()
    async with running(tmp_path, tools) as stub:
        await tools_are_known(stub)
        hanging = plan(step(1, pb.ACTION_CODE_EXECUTE, "hang"), plan_id="0123456789ab")
        following = asyncio.ensure_future(events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=hanging))))
        await tools.entered.wait()
        await stub.CancelExecution(service_pb.CancelExecutionRequest(execution_id="0123456789ab", reason="enough"))
        found = await following
        await tools.cancelled.wait()
        assert kinds(found)[-3:] == ["cancel_requested", "step_skipped", "finished"]
        assert found[-1].finished.overall_status == pb.EXECUTION_STATUS_CANCELLED


async def test_a_question_survives_a_restart(tmp_path: Path) -> None:  # P-47 to P-49, P-130
    async with running(tmp_path) as stub:
        found = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=ASK)))
        assert kinds(found) == ["started", "step_started", "tool_returned", "intervention_requested"]
        assert found[-1].intervention_requested.question == "何色？"
    async with running(tmp_path) as stub:
        request = service_pb.GetExecutionRequest(execution_id=found[-1].execution_id)
        execution = (await stub.GetExecution(request)).execution
        assert execution.status == pb.EXECUTION_STATUS_PAUSED
        assert execution.intervention_request == found[-1].intervention_requested
        replay = answer(found[-1], user_input="青")
        first, again = await events(stub.ResumePlan(replay)), await events(stub.ResumePlan(replay))
        assert kinds(first) == ["intervention_answered", "finished"]
        assert again == first  # the same request answers nothing again
        assert first[-1].finished.step_results[0].output == "青"
        late = await expect_error(stub.ResumePlan(answer(found[-1], user_input="赤")))
        assert late == (grpc.StatusCode.FAILED_PRECONDITION, f"Run {found[-1].execution_id} is not paused")


async def test_answers_to_nothing_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as stub:
        (*_, question) = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=ASK)))
        forged = answer(question, user_input="青")
        forged.answer_token = "0" * 64
        assert (await expect_error(stub.ResumePlan(forged)))[0] == grpc.StatusCode.INVALID_ARGUMENT
        unknown = answer(question, user_input="青")
        unknown.execution_id = "ffffffffffff"
        expected = (grpc.StatusCode.NOT_FOUND, "Run ffffffffffff not found")
        assert await expect_error(stub.ResumePlan(unknown)) == expected
        empty = await expect_error(stub.ResumePlan(answer(question)))
        assert empty == (grpc.StatusCode.INVALID_ARGUMENT, "an answer needs an action, a text or an option")


async def test_bad_plans_are_refused_with_their_reasons(tmp_path: Path) -> None:  # P-12, P-24, P-144
    async with running(tmp_path) as stub:
        wrong = plan(step(2, pb.ACTION_REASONING, "q", 3), step(2, pb.ACTION_REASONING, "q"))
        code, text = await expect_error(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=wrong)))
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert text == "Step 2: 存在しない依存先 3; Step 2: 循環依存または後方依存 3; Step 2: ステップIDが重複"
        for query in ("", " "):
            refusal = await expect_error(stub.CreatePlan(service_pb.CreatePlanRequest(query=query)))
            assert refusal == (grpc.StatusCode.INVALID_ARGUMENT, "query cannot be empty")
        many = plan(*(step(i, pb.ACTION_REASONING, "q") for i in range(1, 22)))
        assert (await expect_error(stub.RunPlan(service_pb.RunPlanRequest(plan=many))))[
            0
        ] == grpc.StatusCode.INVALID_ARGUMENT
        assert (await stub.ListExecutions(service_pb.ListExecutionsRequest())).executions == []


async def test_the_same_request_runs_once(tmp_path: Path) -> None:
    async with running(tmp_path) as stub:
        request = service_pb.ExecutePlanRequest(plan=ASK, request_id=str(uuid.uuid4()))
        first, again = await events(stub.ExecutePlan(request)), await events(stub.ExecutePlan(request))
        assert first == again
        twice = ASK.__class__.FromString(ASK.SerializeToString())
        twice.plan_id = first[0].execution_id
        code, _ = await expect_error(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=twice)))
        assert code == grpc.StatusCode.ALREADY_EXISTS
        assert len((await stub.ListExecutions(service_pb.ListExecutionsRequest())).executions) == 1


async def test_executions_are_listed_drawn_and_audited(tmp_path: Path) -> None:
    async with running(tmp_path) as stub:
        ids = []
        for _ in range(3):
            (*_, last) = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=ASK)))
            ids.append(last.execution_id)
        listed_ids: list[str] = []
        token = ""
        while True:
            page = await stub.ListExecutions(service_pb.ListExecutionsRequest(page_size=2, page_token=token))
            listed_ids += [item.execution_id for item in page.executions]
            token = page.next_page_token
            if not token:
                break
        assert listed_ids == ids[::-1]
        assert (await expect_error(stub.ListExecutions(service_pb.ListExecutionsRequest(page_token="x"))))[0] == (
            grpc.StatusCode.INVALID_ARGUMENT
        )
        drawn = await stub.DrawPlan(service_pb.DrawPlanRequest(execution_id=ids[0]))
        assert 's1["1. ask_user<br/>d"]' in drawn.mermaid
        assert "class s1 running" in drawn.mermaid
        verification = await stub.VerifyExecution(service_pb.VerifyExecutionRequest(execution_id=ids[0]))
        assert (verification.intact, verification.events, list(verification.findings)) == (True, 4, [])


async def test_feedback_moves_the_thresholds(tmp_path: Path) -> None:  # P-89, P-129
    async with running(tmp_path) as stub:
        for _ in range(10):
            text = await stub.SubmitFeedback(
                service_pb.SubmitFeedbackRequest(confidence=0.8, correct=False, request_id=str(uuid.uuid4()))
            )
        assert text.adjusted
        assert text.thresholds == pb.Thresholds(silent=0.95, notify=0.75, confirm=0.45)
    async with running(tmp_path) as stub:
        now = await stub.GetThresholds(service_pb.GetThresholdsRequest())
        assert (now.thresholds, now.records, now.mode) == (text.thresholds, 10, "adjusted")
        nothing = await expect_error(stub.SubmitFeedback(service_pb.SubmitFeedbackRequest(correct=True)))
        assert nothing == (grpc.StatusCode.INVALID_ARGUMENT, "confidence, or execution_id and step_id, must be set")


async def test_a_reset_restores_the_configured_thresholds_for_good(tmp_path: Path) -> None:  # P-91
    wrong = service_pb.SubmitFeedbackRequest(confidence=0.8, correct=False)
    reset = service_pb.ResetThresholdsRequest(request_id=str(uuid.uuid4()))
    async with running(tmp_path) as stub:
        configured = (await stub.GetThresholds(service_pb.GetThresholdsRequest())).configured
        for _ in range(10):
            moved = await stub.SubmitFeedback(wrong)
        assert moved.thresholds != configured
        assert (await stub.ResetThresholds(reset)).thresholds == configured
        again = await stub.SubmitFeedback(wrong)
        assert (again.adjusted, again.records) == (False, 1)  # the window of ten is empty
        await stub.ResetThresholds(reset)
        assert (await stub.GetThresholds(service_pb.GetThresholdsRequest())).records == 1  # a repeated request
    async with running(tmp_path) as stub:
        now = await stub.GetThresholds(service_pb.GetThresholdsRequest())
        assert (now.thresholds, now.records) == (configured, 1)


async def test_a_person_removes_a_step_and_the_rest_runs(tmp_path: Path) -> None:  # P-107
    two_questions = plan(step(1, pb.ACTION_ASK_USER, "何色？"), step(2, pb.ACTION_ASK_USER, "どこ？", 1))
    async with running(tmp_path) as stub:
        (*_, question) = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=two_questions)))
        removed = answer(question, action=pb.INTERVENTION_ACTION_SKIP, remove_step=True)
        found = await events(stub.ResumePlan(removed))
        (replanned,) = [event.replanned for event in found if event.WhichOneof("event") == "replanned"]
        assert (replanned.success, replanned.strategy) == (True, pb.REPLAN_STRATEGY_SKIP)
        assert found[-1].intervention_requested.question == "どこ？"
        (*_, ended) = await events(stub.ResumePlan(answer(found[-1], user_input="海")))
        assert ended.finished.overall_status == pb.EXECUTION_STATUS_SUCCESS
        assert [result.step_id for result in ended.finished.step_results] == [2]


async def test_a_result_states_whether_a_step_is_critical(tmp_path: Path) -> None:  # P-74
    tools = Tools()
    async with running(tmp_path, tools) as stub:
        await tools_are_known(stub)
        fine = plan(step(1, pb.ACTION_WEB_SEARCH, "空の色"))
        critical = plan(step(1, pb.ACTION_WEB_SEARCH, "空の色"), step(2, pb.ACTION_CODE_EXECUTE, "fail"))
        for content, is_critical, factor in ((fine, False, 1.0), (critical, True, 0.7)):
            request = service_pb.RunPlanRequest(plan=content, budget=pb.Budget(max_tool_calls=len(content.steps)))
            result = (await stub.RunPlan(request)).result
            scores = [step_result.confidence for step_result in result.step_results]
            assert len(scores) == len(content.steps)
            assert result.has_critical_step is is_critical
            assert result.checked_confidence == pytest.approx(factor * sum(scores) / len(scores))


async def test_a_watcher_follows_from_any_revision(tmp_path: Path) -> None:
    async with running(tmp_path) as stub:
        (*_, question) = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=ASK)))
        watching = service_pb.WatchExecutionRequest(execution_id=question.execution_id, after_sequence=2)
        following = asyncio.ensure_future(events(stub.WatchExecution(watching)))
        await events(stub.ResumePlan(answer(question, user_input="青")))
        assert [event.sequence for event in await following] == [3, 4, 5, 6]


async def test_a_watcher_continues_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as stub:
        (*_, question) = await events(stub.ExecutePlan(service_pb.ExecutePlanRequest(plan=ASK)))
        watching = service_pb.WatchExecutionRequest(execution_id=question.execution_id)
        stream = stub.WatchExecution(watching)
        seen = [(await stream.read()).event for _ in range(3)]
    async with running(tmp_path) as stub:
        watching.after_sequence = seen[-1].sequence
        following = asyncio.ensure_future(events(stub.WatchExecution(watching)))
        await events(stub.ResumePlan(answer(question, user_input="青")))
        seen += await following
        watching.after_sequence = 0
        whole = await events(stub.WatchExecution(watching))
    assert seen == whole  # nothing is missing, nothing came twice
    assert [event.sequence for event in seen] == [1, 2, 3, 4, 5, 6]
    assert kinds(seen)[-1] == "finished"
