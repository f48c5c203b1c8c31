"""Issue: replayed, mutated or forged answers are refused, in 10,000 generated cases at the full size.

Each of them is a real attempt.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from services.planner.domain.errors import AnswerRefused, RunNotPaused
from services.planner.domain.interventions import InterventionAction, InterventionResponse
from services.planner.domain.results import OverallStatus
from services.planner.tests.parts import (
    FixedBackend,
    ScriptedModel,
    ScriptedTool,
    agent_plan,
    agent_step,
    answer,
    executor,
)
from services.planner.tests.replicas import Bound, MachineClock, question, replica, until_quiet
from services.planner.usecases.executions import Executions
from services.planner.usecases.plan import Planner
from tests.support.campaigns import sized

CASES = sized(10_000, 1_000)
EXECUTIONS = 12
MODIFY = InterventionResponse(action=InterventionAction.MODIFY, user_input="変更")
PROCEED = InterventionResponse(action=InterventionAction.PROCEED)
UNSURE = {f"s{i}": answer("x", 0.5) for i in range(1, 5)} | {"new": answer("y", 0.5)}
REPLY = '{"steps":[{"step_id":1,"action":"run_legacy_agent","description":"d","query":"new"}]}'


@dataclass
class Asked:
    """An execution that asks: its open question, and the ones answered before."""

    execution_id: str
    open: Bound
    interpret_response: list[Bound] = field(default_factory=list)


async def asked(executions: Executions, rng: random.Random) -> Asked:
    """An execution of which some questions were answered, some of them with a wish for another plan."""
    steps = [agent_step(i, *([i - 1] if i > 1 else [])) for i in range(1, 5)]
    execution_id = await executions.start(agent_plan(*steps), None, None)
    await until_quiet(executions, execution_id)
    made = Asked(execution_id, await question(executions, execution_id))
    for _ in range(rng.randint(1, 3)):
        response = MODIFY if rng.random() < 0.3 else PROCEED
        await executions.answer(execution_id, response, *made.open, None)
        state = await until_quiet(executions, execution_id)
        made.interpret_response.append(made.open)
        if not state.is_paused:
            break
        made.open = await question(executions, execution_id)
    return made


def replay(rng: random.Random, one: Asked, other: Asked) -> Bound:
    """An answer that counted once, as it was, or dressed up for the question that is open now."""
    token, version, step = rng.choice(one.interpret_response)
    return (token, version, step) if rng.random() < 0.5 else (token, *one.open[1:])


def mutated(rng: random.Random, one: Asked, other: Asked) -> Bound:
    """The right answer with one part changed."""
    token, version, step = one.open
    place = rng.randrange(len(token))
    digit = rng.choice([c for c in "0123456789abcdef" if c != token[place]])
    changed = token[:place] + digit + token[place + 1 :]
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


def forged(rng: random.Random, one: Asked, other: Asked) -> Bound:
    """Somebody else's answer, or one that was made up."""
    made_up = (rng.randbytes(rng.randrange(40)).hex(), *one.open[1:])
    return rng.choice([other.open, (other.open[0], *one.open[1:]), made_up])


async def test_wrong_answers_are_refused(tmp_path: Path) -> None:
    rng, clock = random.Random(6), MachineClock()
    planner = Planner(FixedBackend(), ScriptedModel(REPLY))
    made = executor(ScriptedTool(UNSURE), planner=planner, clock=clock)
    async with replica(tmp_path / "p.db", made, clock=clock) as executions:
        open_ones: list[Asked] = []
        while len(open_ones) < EXECUTIONS:
            one = await asked(executions, rng)
            if (await executions.state(one.execution_id)).is_paused:
                open_ones.append(one)
        assert any(one.open[1] > 1 for one in open_ones)  # plans that were replaced are among them
        logs = {one.execution_id: await executions.read_log(one.execution_id) for one in open_ones}
        kinds = Counter[str]()
        for _ in range(CASES):
            one, other = rng.sample(open_ones, 2)
            kind = rng.choice([replay, mutated, forged])
            with pytest.raises(AnswerRefused):
                await executions.answer(one.execution_id, PROCEED, *kind(rng, one, other), None)
            kinds[kind.__name__] += 1
        assert min(kinds.values()) > CASES / 4
        for one in open_ones:
            assert await executions.read_log(one.execution_id) == logs[one.execution_id]
        await the_right_ones_still_count(executions, open_ones[1:])
        clock.advance(301)
        with pytest.raises(AnswerRefused, match="expired"):
            await executions.answer(open_ones[0].execution_id, PROCEED, *open_ones[0].open, None)


async def the_right_ones_still_count(executions: Executions, paused: list[Asked]) -> None:
    for one in paused:
        state = await executions.state(one.execution_id)
        while state.is_paused:
            bound = await question(executions, one.execution_id)
            await executions.answer(one.execution_id, PROCEED, *bound, None)
            state = await until_quiet(executions, one.execution_id)
        assert state.result is not None
        assert state.result.overall_status is OverallStatus.SUCCESS
        with pytest.raises(RunNotPaused):
            await executions.answer(one.execution_id, PROCEED, *one.open, None)
