"""The evaluation of targets for one call, bounded in steps and in the length of the texts that it builds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chassis.targets.errors import EvaluationFailed
from chassis.targets.session import SessionHistory, ToolCallRequest

MAX_STEPS = 5_000
"""Steps of one evaluation: parts of conditions that macros repeat, compared items, and searched characters."""
CHARS_PER_STEP = 300
MAX_TEXT_CHARS = 10_000
"""Characters of a text that a target builds."""


@dataclass(slots=True)
class TargetEvaluation:
    """The evaluation of targets for one call: `steps` are those that the target in evaluation may still take.

    `earlier` is the number of earlier calls of the same tool, which many targets compare; None if it is not known.
    """

    call: ToolCallRequest
    session: SessionHistory
    steps: int = MAX_STEPS
    variables: dict[str, Any] = field(default_factory=dict)
    earlier: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Count the earlier calls of the tool, once for all targets."""
        try:
            self.earlier = self.session.counts.get(self.call.tool, 0)
        except EvaluationFailed:  # only the targets that compare it fail
            self.earlier = None

    def spend(self, steps: int) -> None:
        """Take steps. Raises EvaluationFailed when there are none left."""
        self.steps -= steps
        if self.steps < 0:
            raise EvaluationFailed(f"takes more than {MAX_STEPS} steps")


Evaluate = Callable[[TargetEvaluation], Any]
