"""Random plans: directed acyclic graphs of steps with different durations."""

from __future__ import annotations

import random
from dataclasses import dataclass

from services.planner.domain.plans import Action, ExecutionPlan, PlanStep, create_plan_id, utc_now


@dataclass(frozen=True)
class Dag:
    """The seconds of each step, and the earlier steps it depends on; steps are numbered from 1."""

    seconds: dict[int, float]
    needs: dict[int, tuple[int, ...]]

    @property
    def critical_path(self) -> float:
        """Return the lower bound of the makespan for any scheduler, in seconds."""
        ends: dict[int, float] = {}
        for step in sorted(self.seconds):
            ends[step] = self.seconds[step] + max((ends[d] for d in self.needs[step]), default=0.0)
        return max(ends.values())

    @property
    def in_waves(self) -> float:
        """Return the makespan of an ideal scheduler with a barrier after each wave (level) of steps, in seconds."""
        levels: dict[int, int] = {}
        slowest: dict[int, float] = {}
        for step in sorted(self.seconds):
            levels[step] = 1 + max((levels[d] for d in self.needs[step]), default=0)
            slowest[levels[step]] = max(slowest.get(levels[step], 0.0), self.seconds[step])
        return sum(slowest.values())


def random_dag(rng: random.Random, scale: float = 1.0) -> Dag:
    """Return 15 to 40 steps of 20 to 400 ms (log-uniform), each with up to three of the twelve before it."""
    count = rng.randint(15, 40)
    seconds = {step: scale * 0.02 * 20 ** rng.random() for step in range(1, count + 1)}
    needs = {
        step: tuple(sorted(rng.sample(range(max(1, step - 12), step), min(step - 1, rng.randint(0, 3)))))
        for step in seconds
    }
    return Dag(seconds, needs)


def build_plan(dag: Dag) -> ExecutionPlan:
    """Return the plan of a DAG, without validation: clients may send no plan of more than 20 steps (P-05)."""
    steps = tuple(
        PlanStep(
            step_id=step,
            action=Action.CODE_EXECUTE,
            description="sleep",
            query=str(seconds),
            depends_on=dag.needs[step],
        )
        for step, seconds in dag.seconds.items()
    )
    return ExecutionPlan.model_construct(
        original_query="bench",
        complexity=0.5,
        estimated_steps=len(steps),
        requires_confirmation=False,
        steps=steps,
        success_criteria="",
        created_at=utc_now(),
        plan_id=create_plan_id(),
    )
