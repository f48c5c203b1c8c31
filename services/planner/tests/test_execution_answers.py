"""The executor where it asks, is answered, and replaces the plan (P-47 to P-52, P-85, P-86, P-92 to P-112)."""

from typing import Any

import pytest

from services.planner.compat import InProcessExecutor
from services.planner.domain.answers import InterventionPolicy
from services.planner.domain.errors import AnswerRefused
from services.planner.domain.execution import ExecutionState
from services.planner.domain.interventions import InterventionAction, InterventionRequest, InterventionResponse
from services.planner.domain.moves import ExecutionRules
from services.planner.domain.plans import ExecutionPlan, PlanStep
from services.planner.domain.replanning import ReplanManager, ReplanResult, ReplanStrategy
from services.planner.domain.results import OverallStatus, ToolResult
from services.planner.tests.parts import (
    FixedBackend,
    ScriptedModel,
    ScriptedTool,
    StandingClock,
    agent_plan,
    agent_step,
    answer,
    executor,
    failure,
    planner_with,
)
from services.planner.usecases.interventions import InterventionHandler
from services.planner.usecases.legacy_agent import LegacyAgentTool
from services.planner.usecases.plan import Planner
from services.planner.usecases.tools import AskUserTool, ToolRegistry

Action = InterventionAction


OTHER_PLAN = '{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"other"}]}'


async def states_of(
    made: InProcessExecutor, plan: ExecutionPlan, state: ExecutionState | None = None, response: Any = None
) -> list[ExecutionState]:
    return [s async for s in made.execute_plan_generator(plan, state, response) if isinstance(s, ExecutionState)]


async def resume(
    made: InProcessExecutor, plan: ExecutionPlan, state: ExecutionState, **response: Any
) -> ExecutionState:
    return (await states_of(made, plan, state, InterventionResponse(**response)))[-1]


def status(state: ExecutionState) -> dict[int, str]:
    return {i: s.value for i, s in state.step_statuses.items()}


JAPANESE_OPTIONS = ("はい、続行", "計画を修正", "キャンセル")
ENGLISH_OPTIONS = ("Yes, continue", "Change the plan", "Cancel")


@pytest.mark.parametrize(
    ("setting", "query", "message", "options"),
    [
        ("auto", "何色？", "Step 1「d1」の信頼度は 0.50 です", JAPANESE_OPTIONS),
        ("auto", "q", "The confidence of step 1 (d1) is 0.50", ENGLISH_OPTIONS),
        ("ja", "q", "Step 1「d1」の信頼度は 0.50 です", JAPANESE_OPTIONS),
    ],
)
async def test_low_confidence_pauses_and_the_answer_resumes(
    setting: Any, query: str, message: str, options: tuple[str, ...]
) -> None:  # P-47, P-48, P-79, P-82
    tool = ScriptedTool({"s1": answer("one", 0.5)})
    made = executor(tool, rules=ExecutionRules(language=setting))
    plan = agent_plan(agent_step(1), agent_step(2, 1), original_query=query)
    paused = (await states_of(made, plan))[-1]
    request = paused.intervention_request
    assert paused.is_paused
    assert request is not None
    assert (request.step_id, request.level.value, request.timeout_seconds) == (1, "confirm", 300)
    assert (request.message, request.options) == (message, options)
    assert request.plan == plan
    done = await resume(made, plan, paused, action=Action.PROCEED)
    assert tool.queries == ["s1", "s2"]
    assert done.result is not None
    assert done.result.overall_status is OverallStatus.SUCCESS
    assert [h.response_action for h in done.history] == [Action.PROCEED, Action.PROCEED]  # P-87


async def test_a_paused_execution_ends_like_one_without_a_pause() -> None:  # P-47
    def tools() -> ScriptedTool:
        return ScriptedTool({"s1": answer("one", 0.5), "s3": answer("three", 0.6)})

    plan = agent_plan(*(agent_step(i, *([i - 1] if i > 1 else [])) for i in (1, 2, 3, 4)))
    made = executor(tools())
    state = (await states_of(made, plan))[-1]
    while state.is_paused:
        state = await resume(made, plan, state, action=Action.PROCEED)
    people = InterventionHandler(on_confirm=lambda _: "はい、続行")
    straight = await executor(tools()).execute_plan(plan, people=people)
    unimportant = {"created_at", "execution_time_ms", "total_execution_time_ms", "step_results"}
    assert state.result is not None
    assert state.result.model_dump(exclude=unimportant) == straight.model_dump(exclude=unimportant)
    assert [(r.step_id, r.output) for r in state.result.step_results] == [
        (r.step_id, r.output) for r in straight.step_results
    ]


async def test_a_cancel_answer_ends_the_execution() -> None:  # P-50, P-136
    tool = ScriptedTool({"s1": answer("one", 0.5)})
    made, plan = executor(tool), agent_plan(agent_step(1), agent_step(2, 1))
    paused = (await states_of(made, plan))[-1]
    done = await resume(made, plan, paused, action=Action.CANCEL)
    assert done.result is not None
    assert (done.result.overall_status, tool.queries) == (OverallStatus.CANCELLED, ["s1"])
    assert status(done) == {1: "success", 2: "skipped"}


async def test_input_reaches_later_reasoning_steps() -> None:  # P-40, P-50
    agent, reasoning = ScriptedTool({"s1": answer("one", 0.5)}), ScriptedTool(name="reasoning")
    reasoning.scripts = {"q": ToolResult(success=True, output="done", confidence_factors={"llm_self_confidence": 1.0})}
    made = executor(agent, reasoning)
    plan = agent_plan(
        agent_step(1), PlanStep(step_id=2, action="reasoning", description="not the question", depends_on=(1,))
    )
    paused = (await states_of(made, plan))[-1]
    await resume(made, plan, paused, action=Action.INPUT, user_input="赤です")
    assert reasoning.calls[0].context == (("Step 1", "one"), ("User input", "赤です"))
    assert reasoning.queries == ["q"]  # P-142: the user's question, not the description


async def test_retry_repeats_the_step_up_to_a_limit() -> None:  # P-50
    tool = ScriptedTool({"s1": answer("one", 0.5)})
    made, plan = executor(tool), agent_plan(agent_step(1))
    state = (await states_of(made, plan))[-1]
    rounds = 0
    while state.is_paused:
        state = await resume(made, plan, state, action=Action.RETRY)
        rounds += 1
    assert (rounds, len(tool.calls)) == (4, 4)  # three retries; the fourth acts as PROCEED
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.SUCCESS


async def test_skip_drops_the_result_and_what_depends_on_it() -> None:  # P-38, P-50, P-134
    made = executor(ScriptedTool({"s1": answer("one", 0.5)}))
    plan = agent_plan(agent_step(1), agent_step(2, 1), agent_step(3))
    paused = (await states_of(made, plan))[-1]
    done = await resume(made, plan, paused, action=Action.SKIP)
    assert status(done) == {1: "skipped", 2: "skipped", 3: "success"}
    assert done.result is not None
    assert [r.step_id for r in done.result.step_results] == [3]
    assert done.result.overall_status is OverallStatus.PARTIAL


async def test_a_step_that_is_removed_leaves_the_steps_that_depended_on_it() -> None:  # P-107, P-109
    made = executor(ScriptedTool({"s1": answer("one", 0.5)}))
    plan = agent_plan(agent_step(1), agent_step(2, 1), agent_step(3))
    paused = (await states_of(made, plan))[-1]
    done = await resume(made, plan, paused, action=Action.SKIP, remove_step=True)
    assert status(done) == {2: "success", 3: "success"}
    assert [(step.step_id, step.depends_on) for step in done.plan.steps] == [(2, ()), (3, ())]
    assert (done.plan.plan_id, done.plan_version, done.replan_count) == (plan.plan_id, 2, 0)
    assert done.result is not None
    assert done.result.overall_status is OverallStatus.SUCCESS


async def test_the_only_step_of_a_plan_cannot_be_removed() -> None:  # P-107
    made, plan = executor(ScriptedTool({"s1": answer("one", 0.5)})), agent_plan(agent_step(1))
    paused = (await states_of(made, plan))[-1]
    with pytest.raises(AnswerRefused, match="remove_step cannot remove step 1, the only step of the plan") as refused:
        await resume(made, plan, paused, action=Action.SKIP, remove_step=True)
    assert [violation.field for violation in refused.value.violations] == ["response.remove_step"]
    done = await resume(made, plan, paused, action=Action.SKIP)
    assert status(done) == {1: "skipped"}


@pytest.mark.parametrize("text", ["やり直しをお願いします", "別の方法で"])
async def test_input_that_asks_for_a_change_is_one(text: str) -> None:  # P-51, P-94, P-141
    model = ScriptedModel(OTHER_PLAN)
    made = executor(ScriptedTool({"s1": answer("one", 0.5)}), planner=planner_with(model))
    plan = agent_plan(agent_step(1))
    paused = (await states_of(made, plan))[-1]
    after = (await states_of(made, plan, paused, InterventionResponse(action=Action.INPUT, user_input=text)))[-1]
    assert after.replan_count == 1
    assert [step.query for step in after.plan.steps] == ["other", None]
    assert text in model.prompts[0][1]


async def test_ask_user_takes_the_text_as_its_result() -> None:  # P-34, P-47, P-49
    made = executor(ScriptedTool())
    plan = agent_plan(PlanStep(step_id=1, action="ask_user", description="色を聞く", query="何色？"), agent_step(2, 1))
    paused = (await states_of(made, plan))[-1]
    assert paused.intervention_request is not None
    assert paused.intervention_request.question == "何色？"
    done = await resume(made, plan, paused, action=Action.INPUT, user_input="別の色")
    assert (done.step_results[1].output, done.step_results[1].confidence, done.replan_count) == ("別の色", 1.0, 0)
    silent = await resume(made, plan, paused, action=Action.PROCEED)
    assert (silent.step_results[1].output, silent.step_results[1].confidence) == ("", 0.0)


async def test_a_plan_that_must_be_confirmed_waits_before_its_first_step() -> None:  # P-52
    tool = ScriptedTool()
    made, plan = executor(tool), agent_plan(agent_step(1), requires_confirmation=True)
    paused = (await states_of(made, plan))[-1]
    assert paused.intervention_request is not None
    assert (paused.intervention_request.step_id, paused.intervention_request.level.value) == (None, "confirm")
    assert tool.calls == []
    done = await resume(made, plan, paused, action=Action.PROCEED)
    assert (tool.queries, done.is_paused) == (["s1"], False)


async def test_a_plan_is_changed_at_most_three_times() -> None:  # P-52
    made, plan = executor(ScriptedTool()), agent_plan(agent_step(1), requires_confirmation=True)
    state = (await states_of(made, plan))[-1]
    for _ in range(3):
        state = await resume(made, plan, state, action=Action.MODIFY, user_input="もっと詳しく")
        assert state.is_paused
    state = await resume(made, plan, state, action=Action.MODIFY, user_input="もっと詳しく")
    assert state.result is not None
    assert state.result.overall_status is OverallStatus.CANCELLED


async def test_a_plan_sent_with_the_confirmation_replaces_the_plan() -> None:  # P-52, P-109
    tool = ScriptedTool()
    made, plan = executor(tool), agent_plan(agent_step(1), requires_confirmation=True)
    paused = (await states_of(made, plan))[-1]
    other = agent_plan(agent_step(7, query="given"), original_query="forged")
    done = await resume(made, plan, paused, action=Action.MODIFY, modified_plan=other)
    assert tool.queries == ["given"]
    assert (done.plan.plan_id, done.plan.original_query, done.replan_count) == (plan.plan_id, "q", 0)


async def test_modify_without_plan_or_text_cancels() -> None:  # P-52
    made, plan = executor(ScriptedTool()), agent_plan(agent_step(1), requires_confirmation=True)
    done = await resume(made, plan, (await states_of(made, plan))[-1], action=Action.MODIFY)
    assert done.is_cancelled


async def test_modify_at_a_step_replaces_it_and_what_follows() -> None:  # P-103, P-104, P-108
    tool = ScriptedTool({"s2": answer("two", 0.5)})
    made, plan = executor(tool), agent_plan(agent_step(1), agent_step(2, 1), agent_step(3, 2))
    paused = (await states_of(made, plan))[-1]
    other = agent_plan(agent_step(1, query="new a"), agent_step(2, 1, query="new b"))
    done = await resume(made, plan, paused, action=Action.MODIFY, modified_plan=other)
    assert [s.step_id for s in done.plan.steps] == [1, 4, 5]
    assert [s.depends_on for s in done.plan.steps] == [(), (1,), (4,)]
    assert tool.queries == ["s1", "s2", "new a", "new b"]
    assert done.plan.plan_id == plan.plan_id


async def test_a_failed_refinement_is_reported_and_logged(caplog: pytest.LogCaptureFixture) -> None:  # P-111
    class BrokenPlanner(Planner):
        async def refine_plan(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no luck")

    seen: list[ReplanResult] = []
    made = executor(ScriptedTool(), planner=BrokenPlanner(FixedBackend(), ScriptedModel()), on_replan=seen.append)
    plan = agent_plan(agent_step(1), requires_confirmation=True)
    paused = (await states_of(made, plan))[-1]
    await resume(made, plan, paused, action=Action.MODIFY, user_input="もっと詳しく")
    assert "no luck" in seen[-1].reason
    assert "replan failed error=no luck" in caplog.text


async def test_without_an_answer_the_execution_is_cancelled_or_continues() -> None:  # P-85, P-137
    plan = agent_plan(agent_step(1))
    for auto, expected in ((False, OverallStatus.CANCELLED), (True, OverallStatus.SUCCESS)):
        rules = ExecutionRules(policy=InterventionPolicy(auto_proceed_on_timeout=auto))
        tool = ScriptedTool({"s1": answer("one", 0.5)})
        result = await executor(tool, rules=rules).execute_plan(plan)
        assert result.overall_status is expected


async def test_very_low_confidence_replans_without_an_answer() -> None:  # P-86
    tool = ScriptedTool({"s1": answer("one", 0.2)})
    seen: list[ReplanResult] = []
    made = executor(tool, rules=ExecutionRules(replans=ReplanManager(max_replans=1)), on_replan=seen.append)
    await made.execute_plan(agent_plan(agent_step(1)))
    assert [r.strategy for r in seen] == [ReplanStrategy.PARTIAL]  # P-97: 1/1
    requests: list[InterventionRequest] = []

    def confirm(request: InterventionRequest) -> str:
        requests.append(request)
        return "yes"

    seen.clear()
    await made.execute_plan(agent_plan(agent_step(1)), people=InterventionHandler(on_escalate=confirm))
    assert (len(requests), seen) == (1, [])  # intervention first


async def test_a_failed_step_is_replanned_around_what_succeeded() -> None:  # P-44, P-102 to P-104, P-55
    tool = ScriptedTool({"s2": failure("no luck")})
    model = ScriptedModel(OTHER_PLAN)
    made = executor(tool, planner=planner_with(model))
    plan = agent_plan(agent_step(1), agent_step(2, 1))
    result = await made.execute_plan(plan)
    assert tool.queries == ["s1", "s2", "other"]  # finished work is not run again
    assert [r.step_id for r in result.step_results] == [1, 3, 4]
    assert (result.overall_status, result.replan_count, result.plan_id) == (OverallStatus.SUCCESS, 1, plan.plan_id)
    (_, prompt) = model.prompts[0]
    assert "Error: no luck" in prompt  # P-101
    finished_work = prompt.split("Finished work:\n")[1].splitlines()[0:2]
    assert finished_work[0] == "- Step 1: s1"
    assert not finished_work[1].startswith("- Step")  # P-140


async def test_an_early_failure_replans_everything() -> None:  # P-96, P-105, P-133
    tool = ScriptedTool({"s1": failure("x")})
    model = ScriptedModel(OTHER_PLAN)
    made = executor(tool, planner=planner_with(model))
    result = await made.execute_plan(agent_plan(agent_step(1), agent_step(2, 1), agent_step(3, 2)))
    assert tool.queries == ["s1", "other"]
    assert [r.step_id for r in result.step_results] == [4, 5]
    assert "Use broader search words" in model.prompts[0][1]


async def test_there_are_never_more_replans_than_allowed() -> None:  # P-110, P-111, P-132
    tool = ScriptedTool({f"s{i}": failure() for i in range(1, 30)})
    reply = '{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"s%d"}]}'
    model = ScriptedModel(*(reply % number for number in range(2, 9)))
    result = await executor(tool, planner=planner_with(model)).execute_plan(agent_plan(agent_step(1)))
    assert (len(tool.calls), result.replan_count, result.overall_status) == (4, 3, OverallStatus.FAILED)


async def test_a_failed_replan_ends_the_execution() -> None:  # P-100, P-111, P-112
    class NoPlanner(Planner):
        async def create_plan(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("down")

    seen: list[ReplanResult] = []

    def listener(result: ReplanResult) -> None:
        seen.append(result)
        raise RuntimeError("ignored")

    made = executor(ScriptedTool({"s2": failure()}), planner=NoPlanner(FixedBackend()), on_replan=listener)
    steps = (agent_step(1), agent_step(2, 1), agent_step(3, 2))
    result = await made.execute_plan(agent_plan(*steps))
    await made.execute_plan(agent_plan(*steps, original_query="何色？"))
    assert (seen[0].success, seen[0].reason, seen[0].replan_count) == (False, "Replan failed: down", 0)
    assert seen[1].reason == "リプラン失敗: down"
    assert result.overall_status is OverallStatus.PARTIAL


async def test_the_cooldown_uses_the_clock_of_the_execution() -> None:  # P-95
    clock = StandingClock()
    manager = ReplanManager(cooldown_seconds=5)
    tool = ScriptedTool({"s1": answer("one", 0.2), "other": answer("low", 0.2)})
    model = ScriptedModel(OTHER_PLAN)
    made = executor(tool, planner=planner_with(model), rules=ExecutionRules(replans=manager), clock=clock)
    result = await made.execute_plan(agent_plan(agent_step(1)))
    # The second low confidence comes within the cooldown: no replan, so P-85 cancels.
    assert (result.replan_count, result.overall_status) == (1, OverallStatus.CANCELLED)


async def test_offline_a_failed_plan_ends_with_the_reason_instead_of_being_tried_again() -> None:
    planner = Planner(FixedBackend())
    plan = (await planner.create_plan("Why?")).plan
    seen: list[ReplanResult] = []
    search, reasoning = (
        ScriptedTool({"Why?": failure()}, name="rag_search"),
        ScriptedTool({"Why?": failure("no sources")}),
    )
    reasoning.name = "reasoning"
    result = await executor(search, reasoning, planner=planner, on_replan=seen.append).execute_plan(plan)
    assert (len(search.calls), len(reasoning.calls), [replan.success for replan in seen]) == (1, 1, [False])
    assert (result.overall_status, result.replan_count) == (OverallStatus.FAILED, 0)
    for text in ("identical", "offline: no model is configured", "no sources"):
        assert text in result.reason


async def test_an_agent_asks_a_person_and_continues_with_the_answer() -> None:
    model = ScriptedModel('{"tool":"ask_user","query":"Which size?"}', '{"answer":"Size 42."}')
    agent = LegacyAgentTool(model, ToolRegistry([AskUserTool()]))
    questions: list[str | None] = []

    def reply(request: InterventionRequest) -> str:
        questions.append(request.question)
        return "42"

    people = InterventionHandler(on_escalate=reply)
    result = await executor(agent).execute_plan(agent_plan(agent_step(1)), people=people)
    assert (questions, result.final_answer, result.overall_status) == (
        ["Which size?"],
        "Size 42.",
        OverallStatus.SUCCESS,
    )
    assert "42" in model.prompts[1][1]


async def test_information_about_the_last_step_is_used_for_its_answer() -> None:
    tool = ScriptedTool({"s1": [answer("unsure", 0.2), answer("red", 0.95)]})
    people = InterventionHandler(on_escalate=lambda request: "Blue is sold out.")
    result = await executor(tool).execute_plan(agent_plan(agent_step(1)), people=people)
    assert (result.final_answer, len(tool.calls)) == ("red", 2)
    assert tool.calls[1].context == (("User input", "Blue is sold out."),)
