"""An agent that takes the candidate which a model finds most likely: one decision, and a task until its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hansei.client.lift.decisions import FINISH, CandidateCall, Task, render_call, render_prompt
from hansei.client.lift.world import MadeUpCall

MAX_MISTAKES = 1
"""The mistakes after which a task has failed: a repair costs one call."""


class Scorer(Protocol):
    """Estimates with a model how likely each continuation of a prompt is."""

    @property
    def method(self) -> str:
        """Return how the estimates are made."""

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the logarithm of the weight of each continuation; only their differences matter."""


@dataclass(frozen=True, slots=True)
class TaskScore:
    """The probability of the right call at the deciding turn, whether it was chosen, and whether the task succeeded."""

    probability: float
    is_chosen: bool
    is_success: bool


@dataclass(slots=True)
class ChoosingAgent:
    """Works on tasks with the tools of a world. Equal prompts are scored once."""

    scorer: Scorer
    tools: Sequence[str]

    def measure(self, task: Task, memory: Sequence[str]) -> TaskScore:
        """Return the scores of one task; the deciding turn follows right calls."""
        weights = self._weigh(task, memory, task.calls[: task.deciding], task.candidates[task.deciding])
        chosen = weights.index(max(weights))
        right = [candidate.is_right for candidate in task.candidates[task.deciding]].index(True)
        probability = math.exp(weights[right] - _add_logarithms(weights))
        return TaskScore(probability, chosen == right, self._finish_task(task, memory, weights))

    def _finish_task(self, task: Task, memory: Sequence[str], deciding_weights: Sequence[float]) -> bool:
        """Return whether the agent makes all right calls, with at most one failing call, and no silent mistake."""
        made: list[MadeUpCall] = []
        mistakes = 0
        for turn, offered in enumerate(task.candidates):
            candidates = list(offered)
            while True:
                is_known = turn == task.deciding and tuple(made) == task.calls[:turn]
                weights = list(deciding_weights) if is_known else self._weigh(task, memory, made, candidates)
                chosen = candidates.pop(weights.index(max(weights)))
                if chosen.is_right:
                    made.append(chosen.call)
                    break
                error = task.request.convention.error.format_map(task.request.values)
                mistakes += 1
                if mistakes > MAX_MISTAKES or chosen.call.tool == FINISH or (chosen.breaks and not error):
                    return False
                made.append(replace(chosen.call, error=error) if chosen.breaks else chosen.call)
        return True

    def _weigh(
        self, task: Task, memory: Sequence[str], made: Sequence[MadeUpCall], candidates: Sequence[CandidateCall]
    ) -> list[float]:
        prompt = render_prompt(self.tools, memory, task.request.text, made)
        return self.scorer.score(prompt, [f" {render_call(candidate.call)}\n" for candidate in candidates])


def _add_logarithms(weights: Sequence[float]) -> float:
    highest = max(weights)
    return highest + math.log(math.fsum(math.exp(weight - highest) for weight in weights))
