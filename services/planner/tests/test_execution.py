"""The executor: order, fallbacks, bad tools, budgets, results (P-36 to P-57)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from services.planner.domain.events import Budget, LogLine, StepFinished
from services.planner.domain.execution import ExecutionState
from services.planner.domain.moves import ExecutionRules
from services.planner.domain.plans import PlanStep, StepStatus
from services.planner.domain.replanning import ReplanManager
from services.planner.domain.results import Hit, OverallStatus, ToolResult
from services.planner.domain.thresholds import Thresholds
from services.planner.domain.tools import ToolInput
from services.planner.tests.parts import (
    FixedBackend,
    ScriptedModel,
    ScriptedTool,
    agent_plan,
    agent_step,
    answer,
    executor,
    failure,
    verdict,
)
from services.planner.usecases.calls import call_tool
from services.planner.usecases.gates import AdjustedGate
from services.planner.usecases.interventions import InterventionHandler
from services.planner.usecases.judge import StepJudge
from services.planner.usecases.plan import Planner
from services.planner.usecases.tools import ExtractiveReasoningTool, RAGSearchTool

NO_REPLAN = ExecutionRules(replans=ReplanManager(max_replans=0))


async def test_steps_run_in_plan_order_one_at_a_time() -> None:  # P-37
    tool = ScriptedTool()
    plan = agent_plan(*(agent_step(i) for i in (1, 2, 3, 4)))
    result = await executor(tool, rules=ExecutionRules(max_parallel_steps=1)).execute_plan(plan)
    assert tool.queries == ["s1", "s2", "s3", "s4"]
    assert [r.step_id for r in result.step_results] == [1, 2, 3, 4]
    assert (result.overall_status, result.final_answer) == (OverallStatus.SUCCESS, "s4")


async def test_a_step_starts_the_moment_its_dependencies_are_done() -> None:  # P-36: no waves
    slow_may_end, order = asyncio.Event(), []

    async def slow(_: Any) -> ToolResult:
        await slow_may_end.wait()
        return answer("slow")

    def third(_: Any) -> ToolResult:
        order.append("third")
        slow_may_end.set()
        return answer("third")

    # Step 3 depends on the quick step 2 only; behind a barrier it would wait for step 1, which waits for it.
    tool = ScriptedTool({"s1": slow, "s3": third})
    plan = agent_plan(agent_step(1), agent_step(2), agent_step(3, 2))
    result = await executor(tool).execute_plan(plan)
    assert order == ["third"]
    assert [r.step_id for r in result.step_results] == [1, 2, 3]


async def test_never_more_steps_at_once_than_allowed() -> None:  # P-36
    running = most = 0

    async def count_running(_: Any) -> ToolResult:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0)
        running -= 1
        return answer("x")

    tool = ScriptedTool({f"s{i}": count_running for i in range(1, 9)})
    await executor(tool, rules=ExecutionRules(max_parallel_steps=3)).execute_plan(
        agent_plan(*(agent_step(i) for i in range(1, 9)))
    )
    assert most == 3


async def test_the_template_plan_searches_and_answers() -> None:  # P-38 to P-42, P-46, P-53
    hits = [Hit(id="1", content="Pythonは言語です。", source="b1", score=0.9), Hit(content="x", source="b1", score=0.8)]
    backend = FixedBackend(hits)
    made = executor(RAGSearchTool(backend), ExtractiveReasoningTool(), planner=Planner(backend))
    plan = (await Planner(backend).create_plan("Pythonとは何ですか")).plan
    people = InterventionHandler(on_confirm=lambda _: "yes", on_escalate=lambda _: "yes")
    result = await made.execute_plan(plan, people=people)
    assert backend.searched == [("Pythonとは何ですか", "wikipedia_ja")]
    search, reasoning = result.step_results
    assert search.sources == reasoning.sources == ("b1",)  # P-42
    assert search.output is not None
    assert '"source":"b1"' in search.output  # P-41
    assert "Pythonは言語です。 [b1]" in (result.final_answer or "")
    assert result.overall_status is OverallStatus.SUCCESS


async def test_the_executor_supplies_the_factors_of_each_kind_of_step() -> None:  # P-71, P-72
    class OneWay:
        """Embeds every text as the same vector, so that all sources agree."""

        async def embed(self, texts: Sequence[str]) -> Any:
            return np.ones((len(texts), 2), dtype=np.float32)

    judged: dict[int, StepFinished] = {}

    class WatchedJudge(StepJudge):
        async def judge(self, state: ExecutionState, step_id: int, *, skips_model_calls: bool = False) -> StepFinished:
            judged[step_id] = await super().judge(state, step_id, skips_model_calls=skips_model_calls)
            return judged[step_id]

    hits = tuple(Hit(content=f"h{i}", source=f"s{i}", score=0.9) for i in (1, 2))
    search = ScriptedTool({"q": ToolResult(success=True, output=hits)}, name="rag_search")
    reasoning = ScriptedTool({"q": ToolResult(success=True, output="a")}, name="reasoning")
    evaluator = ScriptedModel(verdict(0.8, 0.7))
    made = executor(
        search, reasoning, judge=WatchedJudge(AdjustedGate(Thresholds()), evaluator=evaluator, embedder=OneWay())
    )
    steps = [
        PlanStep(step_id=1, action="rag_search", description="d", query="q"),
        PlanStep(step_id=2, action="reasoning", description="d", query="q", depends_on=(1,)),
    ]
    people = InterventionHandler(on_confirm=lambda _: "yes", on_escalate=lambda _: "yes")
    await made.execute_plan(agent_plan(*steps), people=people)
    first, second = (judged[number].confidence for number in (1, 2))
    assert first.factors is not None
    assert second.factors is not None
    shared = {"tool_execution_count": 1, "tool_success_count": 1, "source_count": 2, "source_agreement": 1.0}
    measured = {
        "search_result_count": 2,
        "search_avg_score": 0.9,
        "search_max_score": 0.9,
        "search_score_variance": 0.0,
    }
    assert first.factors.model_dump() == pytest.approx({**shared, **measured, "is_search_step": True})
    expected = {**shared, "llm_self_confidence": 0.8, "query_coverage": 0.7, "is_search_step": False}
    inherited = {"search_max_score": first.score}
    found = second.factors.model_dump()
    assert {name: found[name] for name in (*expected, *inherited)} == pytest.approx({**expected, **inherited})


@pytest.mark.parametrize("first", [failure(), RuntimeError("boom"), "not a ToolResult"])
async def test_a_failed_call_is_followed_by_the_fallback_once(first: Any) -> None:  # P-43, P-72
    search, agent = ScriptedTool({"s1": first}, name="rag_search"), ScriptedTool()
    plan = agent_plan(agent_step(1, action="rag_search", fallback="run_legacy_agent"))
    result = await executor(search, agent).execute_plan(plan)
    assert (result.overall_status, agent.queries) == (OverallStatus.SUCCESS, ["s1"])
    assert result.step_results[0].output == "s1"


async def test_the_fallback_of_a_fallback_is_never_used() -> None:  # P-43, P-44
    search, agent = ScriptedTool({"s1": failure("a")}, name="rag_search"), ScriptedTool({"s1": failure("b")})
    plan = agent_plan(agent_step(1, action="rag_search", fallback="run_legacy_agent"), agent_step(2, 1))
    result = await executor(search, agent, rules=NO_REPLAN).execute_plan(plan)
    assert (len(search.calls), len(agent.calls)) == (1, 1)
    (only,) = result.step_results
    assert (only.status, only.confidence, only.error) == ("failed", 0, "b")
    assert result.overall_status is OverallStatus.FAILED


async def test_an_action_without_a_tool_fails_its_step() -> None:  # P-26
    result = await executor(rules=NO_REPLAN).execute_plan(agent_plan(agent_step(1, action="web_search")))
    assert result.step_results[0].error == "Unknown action: web_search"


async def test_a_tool_that_never_returns_times_out() -> None:  # P-45, P-145
    async def hang(_: Any) -> ToolResult:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if stubborn.pop():
                    raise

    stubborn = [True, False]  # ignores the first cancel
    plan = agent_plan(agent_step(1, timeout_seconds=1))
    result = await executor(ScriptedTool({"s1": hang}), rules=NO_REPLAN).execute_plan(plan)
    assert result.step_results[0].error == "Step timed out after 1s"


async def test_megabytes_are_refused_and_reported() -> None:
    tool = ScriptedTool({"s1": answer("x" * 300_000)})
    result = await executor(tool, rules=NO_REPLAN).execute_plan(agent_plan(agent_step(1)))
    assert result.step_results[0].error == "Tool output too large: 300014 characters, at most 262144 are allowed"


LARGE = "x" * 300_000


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(success=True, output=(Hit(content="x", source=LARGE),)),
        ToolResult(success=True, output=(Hit(content="x", id=LARGE),)),
        ToolResult(success=True, output={"fields": [{LARGE: "x"}]}),
        ToolResult(success=True, output="x", searched_collections=(LARGE,)),
        ToolResult(success=True, output="x", confidence_factors={LARGE: 0.5}),
        ToolResult(success=False, error=LARGE, token_usage=3),
    ],
    ids=["source", "id", "fields", "collections", "factors", "error"],
)
async def test_every_part_of_a_tool_output_counts(result: ToolResult) -> None:
    checked = await call_tool(ScriptedTool({"q": result}), ToolInput(query="q"))
    assert (checked.error or "").startswith("Tool output too large: 3000")
    assert len(checked.model_dump_json()) < 1_000
    assert checked.token_usage == result.token_usage


@pytest.mark.parametrize("name", ["token_usage", "cost_micro_usd"])
async def test_a_usage_that_the_contract_cannot_sum_is_refused(name: str) -> None:
    excessive = answer("x").model_copy(update={name: 2**63 - 1})
    tool = ScriptedTool({"s1": excessive})
    finished = await executor(tool, rules=NO_REPLAN).execute_plan(agent_plan(agent_step(1)))
    assert [result.error for result in finished.step_results] == [
        f"Invalid tool output: {name} must be at most 1000000000000 (got 9223372036854775807)"
    ]
    assert (finished.total_token_usage, finished.total_cost_usd) == (None, None)


async def test_a_search_that_finds_nothing_is_no_success() -> None:  # P-31, P-134
    empty = ScriptedTool({"s1": ToolResult(success=True, output=())}, name="web_search")
    result = await executor(empty, rules=NO_REPLAN).execute_plan(agent_plan(agent_step(1, action="web_search")))
    assert (result.overall_status, result.step_results[0].status) == (OverallStatus.FAILED, "failed")


async def test_a_broken_executor_ends_the_execution_in_order() -> None:  # P-53
    made = executor(ScriptedTool())
    made.judge.calculator = None  # type: ignore[assignment]
    made.judge.gate = None  # type: ignore[assignment]
    for query, expected in (("q", "Execution error: "), ("何色？", "実行エラー: ")):
        result = await made.execute_plan(agent_plan(agent_step(1), original_query=query))
        assert result.overall_status is OverallStatus.FAILED
        assert (result.final_answer or "").startswith(expected)


@pytest.mark.parametrize(
    ("budget", "calls"),
    [(Budget(max_tool_calls=2), 2), (Budget(max_tokens=15), 2), (Budget(max_cost_micro_usd=5), 1)],
)
async def test_a_budget_holds(budget: Budget, calls: int) -> None:
    tool = ScriptedTool({f"s{i}": answer("x", token_usage=10, cost_micro_usd=5) for i in range(1, 6)})
    plan = agent_plan(*(agent_step(i, *([i - 1] if i > 1 else [])) for i in range(1, 6)))
    result = await executor(tool).execute_plan(plan, budget)
    assert (len(tool.calls), result.overall_status) == (calls, OverallStatus.PARTIAL)
    assert result.total_token_usage == 10 * calls
    assert result.total_cost_usd == pytest.approx(5e-6 * calls)


@pytest.mark.parametrize(
    ("budget", "calls"), [(Budget(max_tokens=25), 3), (Budget(max_cost_micro_usd=12), 3), (Budget(), 8)]
)
async def test_a_budget_holds_for_parallel_calls(budget: Budget, calls: int) -> None:
    """One call may exceed the budget by its own usage, as if the calls ran one after another."""

    async def use_tokens(_: Any) -> ToolResult:
        await asyncio.sleep(0)
        return answer("x", token_usage=10, cost_micro_usd=5)

    tool = ScriptedTool({f"s{i}": use_tokens for i in range(1, 9)})
    result = await executor(tool).execute_plan(agent_plan(*(agent_step(i) for i in range(1, 9))), budget)
    assert (len(tool.calls), result.total_token_usage) == (calls, 10 * calls)


async def test_calls_without_usage_run_in_parallel_within_a_budget() -> None:
    started, all_started = 0, asyncio.Event()

    async def count_concurrent_calls(_: Any) -> ToolResult:
        nonlocal started
        started += 1
        if started == 4:
            all_started.set()
        if started > 1:
            await all_started.wait()
        return answer("x")

    tool = ScriptedTool({f"s{i}": count_concurrent_calls for i in range(1, 5)})
    plan = agent_plan(agent_step(1), *(agent_step(i, 1) for i in (2, 3, 4)))
    result = await executor(tool).execute_plan(plan, Budget(max_tokens=10))
    assert result.overall_status is OverallStatus.SUCCESS


async def test_the_time_of_an_execution_ends_it_in_the_middle_of_a_call() -> None:
    async def hang(_: Any) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    tool = ScriptedTool({"s2": hang})
    plan = agent_plan(agent_step(1), agent_step(2, 1), agent_step(3, 2))
    result = await executor(tool).execute_plan(plan, Budget(max_wall_seconds=0.05))
    assert result.overall_status is OverallStatus.PARTIAL
    assert result.step_results[-1].error == "stopped: the execution's time is used up"


async def test_notifications_reach_people_and_the_log() -> None:  # P-81
    notified: list[str] = []
    plan = agent_plan(agent_step(1))
    made = executor(ScriptedTool({"s1": answer("one", 0.8)}))
    await made.execute_plan(plan, people=InterventionHandler(on_notify=notified.append))
    assert notified == ["The confidence of step 1 is 0.80"]
    lines = [e async for e in made.execute_plan_generator(plan) if isinstance(e, LogLine)]
    assert [line.message for line in lines] == notified


async def test_a_template_in_an_output_stays_text() -> None:  # P-135
    nasty = "{query} ${1} __import__('os') {{7*7}} [Step 1]"
    agent, reasoning = ScriptedTool({"s1": answer(nasty)}), ScriptedTool(name="reasoning")
    reasoning.scripts = {"q": ToolResult(success=True, output="ok", confidence_factors={"llm_self_confidence": 1.0})}
    plan = agent_plan(agent_step(1), PlanStep(step_id=2, action="reasoning", description="d", depends_on=(1,)))
    await executor(agent, reasoning).execute_plan(plan)
    assert reasoning.calls[0].context == (("Step 1", nasty),)


async def test_a_state_begins_with_every_step_pending() -> None:  # P-10
    state = ExecutionState(agent_plan(agent_step(1), agent_step(2)))
    assert state.step_statuses == {1: StepStatus.PENDING, 2: StepStatus.PENDING}
    assert (state.current_step_id, state.overall_confidence, state.max_replans) == (0, 0.0, 3)
    assert state.can_replan()
    state.is_cancelled = True
    assert not state.can_replan()


async def test_the_evaluation_in_an_answer_needs_no_second_call() -> None:  # P-56, P-57, P-143
    evaluator = ScriptedModel(verdict(0.8, 0.9))
    reasoning = ScriptedTool({"q": ToolResult(success=True, output="a")}, name="reasoning")
    made = executor(reasoning, judge=StepJudge(AdjustedGate(Thresholds()), evaluator=evaluator))
    plan = agent_plan(PlanStep(step_id=1, action="reasoning", description="d"))
    people = InterventionHandler(on_confirm=lambda _: "yes", on_escalate=lambda _: "yes")
    result = await made.execute_plan(plan, people=people)
    step = result.step_results[0].confidence
    assert result.overall_confidence == pytest.approx(round(step * 0.6 + 0.25 * 0.8 + 0.15 * 0.9, 3))
    assert len(evaluator.prompts) == 1


@pytest.mark.parametrize("action", ["code_execute", "web_search"])
async def test_no_model_judges_a_result_with_a_measured_confidence(action: str) -> None:
    evaluator = ScriptedModel(verdict(0.1, 0.1))
    factors = {"llm_self_confidence": 1.0, "query_coverage": 1.0}
    computed = ToolResult(success=True, output="a", confidence_factors=factors)
    found = ToolResult(success=True, output=(Hit(content="a", source="s", score=0.9),))
    tool = ScriptedTool({"q": found if action == "web_search" else computed}, name=action)
    made = executor(tool, judge=StepJudge(AdjustedGate(Thresholds()), evaluator=evaluator))
    plan = agent_plan(PlanStep(step_id=1, action=action, description="d", query="q"))
    people = InterventionHandler(on_confirm=lambda _: "yes", on_escalate=lambda _: "yes")
    result = await made.execute_plan(plan, people=people)
    assert result.step_results[0].status == "success"
    assert result.step_results[0].confidence > 0.5
    assert evaluator.prompts == []


@pytest.mark.parametrize(
    "reply", [RuntimeError("down"), "", "high", '{"supported": NaN, "complete": 1}', verdict(1.5, 0.5)]
)
async def test_a_failed_evaluation_gives_the_middle_score(reply: str | Exception) -> None:  # P-69
    evaluator = ScriptedModel(reply)
    reasoning = ScriptedTool({"q": ToolResult(success=True, output="a")}, name="reasoning")
    made = executor(reasoning, judge=StepJudge(AdjustedGate(Thresholds()), evaluator=evaluator))
    plan = agent_plan(PlanStep(step_id=1, action="reasoning", description="d"))
    people = InterventionHandler(on_confirm=lambda _: "yes", on_escalate=lambda _: "yes")
    result = await made.execute_plan(plan, people=people)
    step = result.step_results[0].confidence
    assert result.overall_confidence == pytest.approx(round(step * 0.6 + 0.25 * 0.5 + 0.15 * 0.5, 3))
