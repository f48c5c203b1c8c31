"""Issue: replayed, mutated or forged answers are refused, in 10,000 generated cases at the full size.

Each of them is a real attempt.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from services.planner.domain.errors import AnswerRefused, ExecutionNotPaused
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.results import OverallStatus
from services.planner.tests.parts import (
    ScriptedModel,
    ScriptedTool,
    agent_plan,
    agent_step,
    answer,
    executor,
    planner_with,
)
from services.planner.tests.replicas import Bound, MachineClock, question, replica, until_quiet
from services.planner.usecases.executions import Executions
from tests.support.campaigns import campaign_cases

CASES = campaign_cases(range(10_000), short=1_000)
"""The seeds of the wrong answers."""
EXECUTIONS = 12
MODIFY = InterventionResponse(action=InterventionAction.MODIFY, user_input="変更")
PROCEED = InterventionResponse(action=InterventionAction.PROCEED)
UNSURE = {f"s{i}": answer("x", 0.5) for i in range(1, 5)} | {"new": answer("y", 0.5)}
REPLY = '{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"new"}]}'


@dataclass
class AskingExecution:
    """An execution that asks: its open question, and the ones answered before."""

    execution_id: str
    open: Bound
    answered_before: list[Bound] = field(default_factory=list)


async def start_and_answer(executions: Executions, rng: random.Random) -> AskingExecution:
    """Return an execution of which some questions were answered, some of them with a wish for another plan."""
    steps = [agent_step(i, *([i - 1] if i > 1 else [])) for i in range(1, 5)]
    execution_id = await executions.start(agent_plan(*steps), None, None)
    await until_quiet(executions, execution_id)
    made = AskingExecution(execution_id, await question(executions, execution_id))
    for _ in range(rng.randint(1, 3)):
        response = MODIFY if rng.random() < 0.3 else PROCEED
        await executions.answer(execution_id, response, *made.open, None)
        state = await until_quiet(executions, execution_id)
        made.answered_before.append(made.open)
        if not state.is_paused:
            break
        made.open = await question(executions, execution_id)
    return made


def replay_answer(rng: random.Random, execution: AskingExecution, other: AskingExecution) -> Bound:
    """Return an answer that counted once, as it was, or dressed up for the question that is open now."""
    token, version, step = rng.choice(execution.answered_before)
    return (token, version, step) if rng.random() < 0.5 else (token, *execution.open[1:])


def mutate(rng: random.Random, execution: AskingExecution, other: AskingExecution) -> Bound:
    """The right answer with one part changed."""
    token, version, step = execution.open
    position = rng.randrange(len(token))
    digit = rng.choice([c for c in "0123456789abcdef" if c != token[position]])
    changed = token[:position] + digit + token[position + 1 :]
    another = rng.choice([s for s in (None, *range(1, 9)) if s != step])
    return rng.choice(
        [
            (changed, version, step),
            (token.upper() if token.upper() != token else changed, version, step),
            (token[:-1], version, step),
            (token, version + rng.choice([-1, 1, 7]), step),
            (token, version, another),
        ]
    )


def forge(rng: random.Random, execution: AskingExecution, other: AskingExecution) -> Bound:
    """Return the token of another question, or an invented one."""
    made_up = (rng.randbytes(rng.randrange(40)).hex(), *execution.open[1:])
    return rng.choice([other.open, (other.open[0], *execution.open[1:]), made_up])


async def test_wrong_answers_are_refused(tmp_path: Path) -> None:
    rng, clock = random.Random(6), MachineClock()
    planner = planner_with(ScriptedModel(REPLY))
    made = executor(ScriptedTool(UNSURE), planner=planner, clock=clock)
    async with replica(tmp_path / "p.db", made, clock=clock) as executions:
        paused_executions: list[AskingExecution] = []
        while len(paused_executions) < EXECUTIONS:
            execution = await start_and_answer(executions, rng)
            if (await executions.state(execution.execution_id)).is_paused:
                paused_executions.append(execution)
        assert any(execution.open[1] > 1 for execution in paused_executions)  # plans that were replaced are among them
        logs = {
            execution.execution_id: await executions.read_log(execution.execution_id) for execution in paused_executions
        }
        kinds = Counter[str]()
        for case in CASES:
            rng.seed(case)
            execution, other = rng.sample(paused_executions, 2)
            kind = rng.choice([replay_answer, mutate, forge])
            with pytest.raises(AnswerRefused):
                await executions.answer(execution.execution_id, PROCEED, *kind(rng, execution, other), None)
            kinds[kind.__name__] += 1
        assert min(kinds.values()) > len(CASES) / 4
        for execution in paused_executions:
            assert await executions.read_log(execution.execution_id) == logs[execution.execution_id]
        await the_right_ones_still_count(executions, paused_executions[1:])
        clock.advance(301)
        with pytest.raises(AnswerRefused, match="expired"):
            await executions.answer(paused_executions[0].execution_id, PROCEED, *paused_executions[0].open, None)


async def the_right_ones_still_count(executions: Executions, paused: list[AskingExecution]) -> None:
    for execution in paused:
        state = await executions.state(execution.execution_id)
        while state.is_paused:
            bound = await question(executions, execution.execution_id)
            await executions.answer(execution.execution_id, PROCEED, *bound, None)
            state = await until_quiet(executions, execution.execution_id)
        assert state.result is not None
        assert state.result.overall_status is OverallStatus.SUCCESS
        with pytest.raises(ExecutionNotPaused):
            await executions.answer(execution.execution_id, PROCEED, *execution.open, None)
