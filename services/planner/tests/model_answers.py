"""Executions with a planning model that answers anything: sense, nonsense, and plans that never get anywhere."""

from __future__ import annotations

import json
import random
from typing import Any

from services.planner.domain.answers import AskingPolicy
from services.planner.domain.events import Budget
from services.planner.domain.moves import Rules
from services.planner.domain.replanning import ReplanManager, ReplanResult
from services.planner.domain.results import ExecutionResult, ToolResult
from services.planner.domain.tools import ToolInput
from services.planner.tests.scripted import FixedBackend, ScriptedModel, ScriptedTool, agent_plan, agent_step, executor
from services.planner.usecases.plan import Planner

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
    if rng.random() < 0.6:  # a valid chain, so that the execution goes on
        steps = [{"step_id": i, "action": "run_legacy_agent", "description": "d"} for i in range(1, len(steps) + 1)]
    return json.dumps({"steps": steps, "requires_confirmation": rng.random() < 0.3})


class Luck:
    """A tool that fails, is unsure, or succeeds, as chance has it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __call__(self, given: ToolInput) -> ToolResult:
        chance = self._rng.random()
        if chance < 0.5:
            raise RuntimeError("bad luck")
        confidence = self._rng.choice([0.0, 0.2, 0.5, 0.95])
        return ToolResult(success=True, output="x", confidence_factors={"confidence": confidence}, token_usage=5)


async def executed(seed: int) -> tuple[ExecutionResult, int, int, list[ReplanResult]]:
    """The result of one execution, its calls, its model calls, and its replans."""
    rng = random.Random(seed)
    tool = ScriptedTool()
    luck = Luck(rng)
    run = tool.run

    async def lucky(given: ToolInput) -> ToolResult:
        await run(given)
        return luck(given)

    tool.run = lucky  # type: ignore[method-assign]
    model = ScriptedModel(*(reply(rng) for _ in range(8)), tokens=rng.choice([0, 10, 100]))
    replans: list[ReplanResult] = []
    rules = Rules(
        AskingPolicy(auto_proceed_on_timeout=rng.random() < 0.5),
        ReplanManager(max_replans=MOST_REPLANS, cooldown_seconds=rng.choice([0.0, 5.0])),
        rng.choice([1, 4]),
    )
    made = executor(tool, planner=Planner(FixedBackend(), model), rules=rules, on_replan=replans.append)
    count = rng.randint(1, 5)
    steps = [agent_step(i, *([i - 1] if i > 1 and rng.random() < 0.5 else [])) for i in range(1, count + 1)]
    result = await made.execute_plan(agent_plan(*steps), Budget(max_tool_calls=MOST_CALLS, max_tokens=400))
    return result, len(tool.calls), len(model.prompts), replans


def check(result: ExecutionResult, calls: int, asked: int, replans: list[ReplanResult]) -> None:
    """What holds whatever the model answers."""
    assert calls <= MOST_CALLS
    assert result.replan_count <= MOST_REPLANS  # P-132
    assert sum(r.success for r in replans) == result.replan_count
    assert asked <= MOST_REPLANS + 1
    if result.overall_status.value == "success":  # P-134
        assert result.step_results
        assert all(r.status == "success" for r in result.step_results)
    assert not (result.final_answer or "").startswith("実行エラー")
