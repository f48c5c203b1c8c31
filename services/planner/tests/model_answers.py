"""Executions with a planning model that answers anything: sense, nonsense, and plans that never get anywhere."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from services.planner.compat import MemoryLog
from services.planner.domain.answers import InterventionPolicy
from services.planner.domain.events import EVENT, Budget, Event, StepStarted
from services.planner.domain.execution import ExecutionState
from services.planner.domain.fold import replay
from services.planner.domain.moves import ExecutionRules
from services.planner.domain.replanning import ReplanManager, ReplanResult
from services.planner.domain.results import ExecutionResult, ToolResult
from services.planner.domain.tools import ToolInput
from services.planner.tests.parts import FixedBackend, ScriptedModel, ScriptedTool, agent_plan, agent_step, executor
from services.planner.usecases.interventions import InterventionHandler
from services.planner.usecases.plan import Planner
from services.planner.usecases.recorder import ExecutionRecorder
from services.planner.usecases.tools import AskUserTool, ExtractiveReasoningTool, RAGSearchTool, ToolRegistry

MOST_REPLANS = 3
MOST_CALLS = 12


def _step(rng: random.Random, number: int) -> dict[str, Any]:
    return {
        "step_id": rng.choice([number, number, number, 1, 0, -1, 7, "x"]),
        "action": rng.choice(["run_legacy_agent"] * 5 + ["web_search", "reasoning", "sing", None]),
        "description": rng.choice(["d", "d", "d", ""]),
        "query": rng.choice([f"q{number}", "again", None, "{query}"]),
        "depends_on": rng.choice([[], [], [number - 1], [number], [99], list(range(1, number))]),
        "fallback": rng.choice([None, None, "run_legacy_agent", "ask_user", "sing"]),
    }


def reply(rng: random.Random) -> str | Exception:
    """Anything a planning model might say."""
    if rng.random() < 0.1:
        return rng.choice([RuntimeError("down"), TimeoutError(), ValueError("?")])
    if rng.random() < 0.1:
        return rng.choice(["", "no json", "{", "[]", "```json\n{}\n```", "null"])
    steps = [_step(rng, number) for number in range(1, rng.choice([1, 1, 2, 3, 5, 20, 21]) + 1)]
    if rng.random() < 0.6:  # a valid chain, so that the execution continues
        steps = [{"step_id": i, "action": "run_legacy_agent", "description": "d"} for i in range(1, len(steps) + 1)]
    return json.dumps({"steps": steps, "requires_confirmation": rng.random() < 0.3})


class RandomTool:
    """A tool that fails, is unsure, or succeeds, as chance has it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __call__(self, tool_input: ToolInput) -> ToolResult:
        chance = self._rng.random()
        if chance < 0.5:
            raise RuntimeError("bad luck")
        confidence = self._rng.choice([0.0, 0.2, 0.5, 0.95])
        return ToolResult(success=True, output="x", confidence_factors={"confidence": confidence}, token_usage=5)


@dataclass
class Witness:
    """Sees every event of an execution, and objects the moment something finished is touched again."""

    committed: dict[int, str] = field(default_factory=dict)
    states: list[ExecutionState] = field(default_factory=list)

    def __call__(self, state: ExecutionState, event: Event) -> None:
        now = {i: result.model_dump_json() for i, result in state.step_results.items() if result.status == "success"}
        if isinstance(event, StepStarted):
            assert event.step_id not in self.committed, "a committed step was called again"
        for step_id, result_json in now.items():
            assert self.committed.setdefault(step_id, result_json) == result_json, "finished work was changed"
        self.states.append(state.copy())


async def execute_by_chance(seed: int) -> EndedExecution:
    """One execution, whose planner, tool, rules and plan are as chance has them."""
    rng = random.Random(seed)
    tool = ScriptedTool()
    luck = RandomTool(rng)
    run = tool.run

    async def lucky(tool_input: ToolInput) -> ToolResult:
        await run(tool_input)
        return luck(tool_input)

    tool.run = lucky  # type: ignore[method-assign]
    model = ScriptedModel(*(reply(rng) for _ in range(8)), tokens=rng.choice([0, 10, 100]))
    replans: list[ReplanResult] = []
    rules = ExecutionRules(
        InterventionPolicy(auto_proceed_on_timeout=rng.random() < 0.5),
        ReplanManager(max_replans=MOST_REPLANS, cooldown_seconds=rng.choice([0.0, 5.0])),
        rng.choice([1, 4]),
    )
    backend = FixedBackend()
    tools = ToolRegistry([RAGSearchTool(backend), ExtractiveReasoningTool(), AskUserTool(), tool])
    plan_executor = executor(tool, planner=Planner(backend, model, tools=tools), rules=rules, on_replan=replans.append)
    count = rng.randint(1, 5)
    steps = [agent_step(i, *([i - 1] if i > 1 and rng.random() < 0.5 else [])) for i in range(1, count + 1)]
    started = plan_executor.make_started(
        agent_plan(*steps), Budget(max_tool_calls=MOST_CALLS, max_tokens=400), human_available=False
    )
    witness, log = Witness(), MemoryLog()
    driven = ExecutionRecorder(ExecutionState(started.plan), log, plan_executor.clock, witness)
    driven.record(started)
    await plan_executor.drive(
        driven, InterventionHandler(policy=rules.policy, replans=rules.replans, clock=plan_executor.clock)
    )
    return EndedExecution(
        driven.state, [tool_input.key for tool_input in tool.calls], len(model.prompts), replans, log, witness
    )


@dataclass(frozen=True)
class EndedExecution:
    """An execution that ended: its state, the keys of its calls, model calls, replans and notifications."""

    state: ExecutionState
    calls: list[str]
    model_calls: int
    replans: list[ReplanResult]
    log: MemoryLog
    witness: Witness

    @property
    def result(self) -> ExecutionResult:
        assert self.state.result is not None
        return self.state.result


def check(run: EndedExecution) -> None:
    """Check the invariants that hold for every answer of the model."""
    result = run.result
    assert len(run.calls) <= MOST_CALLS
    assert len(set(run.calls)) == len(run.calls)  # no call is made twice
    assert result.replan_count <= MOST_REPLANS  # P-132
    assert sum(r.success for r in run.replans) == result.replan_count
    assert run.model_calls <= MOST_REPLANS + 1
    result_json = {r.step_id: r.model_dump_json() for r in result.step_results if r.status == "success"}
    assert result_json.items() <= run.witness.committed.items()  # finished work is kept byte for byte
    if result.overall_status.value == "success":  # P-134
        assert result.step_results
        assert all(r.status == "success" for r in result.step_results)
    assert not (result.final_answer or "").startswith("Execution error")


def check_replay(run: EndedExecution) -> None:
    """The log alone, written and read again, gives every state the execution went through."""
    read = [
        recorded.model_copy(update={"event": EVENT.validate_json(EVENT.dump_json(recorded.event))})
        for recorded in run.log.events
    ]
    for number, state in enumerate(run.witness.states, start=1):
        assert replay(read[:number]) == state
