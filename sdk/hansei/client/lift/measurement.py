"""Measures the lift of memories: how much more often a model makes the right call with each of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from hansei.client.lift.agent import ChoosingAgent, Scorer, TaskScore
from hansei.client.lift.decisions import Task, build_tasks, list_tools
from hansei.client.lift.memories import (
    HANSEI,
    Memory,
    build_search_memory,
    build_simple_memories,
    cut_to_budget,
    learn_trajectories,
    list_bullets,
)
from hansei.client.lift.world import MadeUpWorld, build_test_requests, build_training_trajectories

if TYPE_CHECKING:
    from hansei.client.client import Client

TRAINING_TASKS = 60
RESAMPLES = 2_000
READERS: Mapping[str, Callable[[TaskScore], float]] = {
    "probability": lambda score: score.probability,
    "right_call": lambda score: float(score.is_chosen),
    "success": lambda score: float(score.is_success),
}


@dataclass(slots=True)
class LiftMeter:
    """The tasks of a world, the memories that were built from its training trajectories, and the scores of each."""

    world: MadeUpWorld
    tasks: Sequence[Task]
    memories: Mapping[str, Memory]
    tokens: int
    scores: dict[str, list[TaskScore]] = field(default_factory=dict)

    def measure(self, scorer: Scorer) -> Iterator[tuple[str, int]]:
        """Score every memory on every task; yield the memory and the number of scored tasks."""
        agent = ChoosingAgent(scorer, list_tools(self.world))
        for name, memory in self.memories.items():
            self.scores[name] = []
            for task in self.tasks:
                served = cut_to_budget(memory(task.request.text), self.tokens)
                self.scores[name].append(agent.measure(task, served))
                yield name, len(self.scores[name])

    def build_rows(self) -> list[dict[str, Any]]:
        """Return the means of each memory with their intervals, and the differences of hansei to it, paired by task."""
        return [self._build_row(name) for name in self.scores]

    def _build_row(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = {"memory": name}
        for measure, read in READERS.items():
            values = [read(score) for score in self.scores[name]]
            row[measure] = round(fmean(values), 3)
            row[f"{measure}_95"] = format_interval(values)
            pairs = zip(self.scores.get(HANSEI, ()), self.scores[name], strict=False)
            differences = [read(ours) - read(theirs) for ours, theirs in pairs]
            row[f"hansei_minus_this_{measure}"] = format_interval(differences) if any(differences) else "0"
        for kind in sorted({task.request.convention.kind for task in self.tasks}):
            of_kind = [
                score.is_chosen
                for task, score in zip(self.tasks, self.scores[name], strict=True)
                if task.request.convention.kind == kind
            ]
            row[f"right_call, {kind}"] = round(fmean(of_kind), 3)
        return row


def prepare_lift(client: Client, world: MadeUpWorld, *, tasks: int, tokens: int, seed: int) -> LiftMeter:
    """Record and learn the training trajectories offline, and return the meter for `tasks` test tasks."""
    trajectories = build_training_trajectories(world, TRAINING_TASKS, seed)
    dataset = f"{world.name}-{seed}"
    revision = learn_trajectories(client, trajectories, dataset)
    memories = {
        HANSEI: build_search_memory(client, dataset, revision),
        **build_simple_memories(world, trajectories, list_bullets(client, dataset), seed),
    }
    return LiftMeter(world, build_tasks(world, build_test_requests(world, tasks, seed), seed), memories, tokens)


def format_interval(values: Sequence[float]) -> str:
    """Return the 95 % interval of the mean over tasks (bootstrap, fixed seed)."""
    chance = random.Random(0)
    means = sorted(fmean(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    low, high = (means[int(RESAMPLES * share)] for share in (0.025, 0.975))
    return f"{low:.2f} to {high:.2f}"
