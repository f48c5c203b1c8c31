"""Guarded calls: what each decision means for a call of a plan and for one of an agent, and outages of the guards."""

from __future__ import annotations

from dataclasses import dataclass, field

from chassis.channels import Peers
from chassis.targets.guard import CallDecision
from chassis.targets.session import ToolCallRequest
from services.planner.adapters.guards import PAUSE_SECONDS, EvidenceCallChecks
from services.planner.domain.results import ToolResult
from services.planner.domain.tools import ToolInput
from services.planner.tests.parts import ScriptedModel, ScriptedTool
from services.planner.usecases.guarded_calls import GuardedToolCalls
from services.planner.usecases.legacy_agent import LegacyAgentTool
from services.planner.usecases.ports import LessonVerdict, PlannedCall
from services.planner.usecases.tools import ToolRegistry

LESSON = "Look the order up first."
CHOICE = '{"tool": "rag_search", "query": "shoes"}'
ANSWER = '{"answer": "Blue."}'


@dataclass
class OneGuard:
    """A guard with one decision against `rag_search`."""

    decision: CallDecision
    checked: list[PlannedCall] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)

    async def check(self, call: PlannedCall) -> LessonVerdict:
        self.checked.append(call)
        return LessonVerdict(self.decision, (LESSON,)) if call.request.tool == "rag_search" else LessonVerdict()

    async def report(self, call: PlannedCall, result: ToolResult) -> None:
        self.reported.append(call.request.key)


def make_agent(guard: OneGuard, *replies: str) -> tuple[LegacyAgentTool, ScriptedTool, ScriptedModel]:
    """Return an agent with one guarded tool, the tool, and the model."""
    tool, model = ScriptedTool(name="rag_search"), ScriptedModel(*replies)
    return LegacyAgentTool(model, ToolRegistry([tool]), GuardedToolCalls(guard)), tool, model


async def test_an_agent_gets_advice_before_the_call_and_may_repeat_it() -> None:
    guard = OneGuard(CallDecision.ADVISE)
    agent, tool, model = make_agent(guard, CHOICE, CHOICE, ANSWER)
    result = await agent.run(ToolInput("colour?", key="e:1:1", execution_id="e"))
    assert tool.queries == ["shoes"]
    assert LESSON in model.prompts[1][1]
    assert [LESSON in text for text in result.advice] == [True]
    assert [call.key for call in guard.checked] == ["e:1:1:0", "e:1:1:1"]
    assert len(guard.reported) == 1


async def test_an_agent_reads_why_its_call_was_refused() -> None:
    agent, tool, model = make_agent(OneGuard(CallDecision.DENY), CHOICE, ANSWER)
    result = await agent.run(ToolInput("colour?"))
    assert (tool.queries, result.output) == ([], "Blue.")
    assert LESSON in model.prompts[1][1]


async def test_a_held_call_of_an_agent_is_made_after_its_approval() -> None:
    guard = OneGuard(CallDecision.ASK)
    agent, tool, _ = make_agent(guard, CHOICE, CHOICE, ANSWER)
    result = await agent.run(ToolInput("colour?"))
    assert result.held_call is not None
    assert (tool.queries, result.held_call.tool, result.held_call.lesson) == ([], "rag_search", LESSON)
    approved = await agent.run(ToolInput("colour?", approved_calls=frozenset({result.held_call.call_key})))
    assert (tool.queries, approved.output) == (["shoes"], "Blue.")


async def test_a_call_of_a_plan_is_made_with_the_advice_as_context() -> None:
    guard, tool = OneGuard(CallDecision.ADVISE), ScriptedTool(name="rag_search")
    result = await GuardedToolCalls(guard).run(tool, ToolInput("shoes", collection="shop"))
    assert [text for _, text in tool.calls[0].context] == [LESSON]
    assert [LESSON in text for text in result.advice] == [True]
    assert guard.checked[0].request.args == {"query": "shoes", "collection": "shop"}


async def test_after_a_failed_check_calls_are_unchecked_for_a_while() -> None:
    seconds = [100.0]
    counted: list[str] = []
    peers = Peers({"evidence": ""})  # Without an address every call fails at once.
    checks = EvidenceCallChecks(peers, "planner", 0.5, counted.append, lambda: seconds[0])
    call = PlannedCall("e", "e:1:1", "", ToolCallRequest("rag_search", {}), (("query", "Which?"),))
    for _ in range(3):
        assert await checks.check(call) == LessonVerdict()
    assert checks.is_paused
    seconds[0] += PAUSE_SECONDS
    assert not checks.is_paused
    assert counted == ["unchecked"] * 3
    await peers.close()
