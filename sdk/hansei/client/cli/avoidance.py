"""Measure how often the served text shows how to avoid an error: the value or the call that worked afterwards.

Each operation's first failing call in a trajectory is a test, if a later call repaired it. The query has only what
happened before. Simple memories of the same earlier trajectories are measured for comparison. The tests in the first
trajectory of a task are counted apart: in a later one, a memory may know the values of that very task.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from hansei.client.cli.failed_tool_call import FailedToolCall
from hansei.client.server import load_server

PLAYBOOK = "playbook"
JOINED_ERRORS = "errors joined for each tool"
COMMONEST_ERRORS = "the five commonest errors"
WORKING_CALLS = "last five working calls of the tool"
SHOWN = 5
MIN_CHARS = 2
"""Shorter values, such as a digit, occur in any text."""


def tells_how(texts: Sequence[str], call: FailedToolCall) -> bool:
    """Return whether a text names the operation of a failing call, and a value or call that worked afterwards."""
    return any(_holds(text, call.operation) and any(_holds(text, remedy) for remedy in call.remedies) for text in texts)


def _holds(text: str, part: str) -> bool:
    pattern = rf"(?<!\w){re.escape(part.casefold())}(?!\w)"
    return len(part) >= MIN_CHARS and re.search(pattern, text.casefold()) is not None


@dataclass(frozen=True, slots=True)
class PassedShare:
    """The share of the tests that a memory passed, 0 without tests, with its exact 95 % interval."""

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the share and its interval."""
        return f"{self.share:.3f} ({self.low:.3f} to {self.high:.3f})"


@cache
def _compute_share(passed: int, tests: int) -> PassedShare:
    low, high = load_server().find_interval(passed, tests)
    return PassedShare(round(passed / tests, 4) if tests else 0.0, round(low, 4), round(high, 4))


def _divide(passed: Counter[str], tests: int) -> dict[str, PassedShare]:
    names = (PLAYBOOK, JOINED_ERRORS, COMMONEST_ERRORS, WORKING_CALLS)
    return {name: _compute_share(passed[name], tests) for name in names}


@dataclass(slots=True)
class Avoidance:
    """The tests so far, and how many each memory passed: all tests, and those in the first trajectory of a task."""

    repaired: int = 0
    repaired_in_new_tasks: int = 0
    passed: Counter[str] = field(default_factory=Counter)
    passed_in_new_tasks: Counter[str] = field(default_factory=Counter)
    _errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    _working_calls: defaultdict[str, deque[str]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=SHOWN))
    )

    def count(self, call: FailedToolCall, served: Sequence[str], *, is_new_task: bool) -> None:
        """Test the served texts and the simple memories on a failing call that was repaired."""
        self.repaired += 1
        self.repaired_in_new_tasks += is_new_task
        memories: Mapping[str, Sequence[str]] = {
            PLAYBOOK: served,
            JOINED_ERRORS: [self._join_errors(call.operation)],
            COMMONEST_ERRORS: [f"{name}: {error}" for (name, error), _ in self._errors.most_common(SHOWN)],
            WORKING_CALLS: self._working_calls[call.operation],
        }
        passed = [name for name, texts in memories.items() if tells_how(list(texts), call)]
        self.passed.update(passed)
        self.passed_in_new_tasks.update(passed if is_new_task else ())

    def learn(self, calls: Sequence[FailedToolCall], working_calls: Sequence[tuple[str, str]]) -> None:
        """Add the errors and the working calls (operation, arguments) of a trajectory to the simple memories."""
        self._errors.update((call.operation, call.error) for call in calls)
        for operation, arguments in working_calls:
            self._working_calls[operation].append(f"{operation} {arguments}")

    def shares(self) -> dict[str, PassedShare]:
        """Return the share of the tests that each memory passed; 0 without tests."""
        return _divide(self.passed, self.repaired)

    def shares_of_new_tasks(self) -> dict[str, PassedShare]:
        """Return the share of the tests in first trajectories of tasks that each memory passed; 0 without tests."""
        return _divide(self.passed_in_new_tasks, self.repaired_in_new_tasks)

    def _join_errors(self, operation: str) -> str:
        return f"{operation}: {'; '.join(error for name, error in self._errors if name == operation)}"
