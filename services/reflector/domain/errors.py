"""What the reflector refuses, and why.

InvalidArgument
├── InvalidDatasetName     C-13, R-29
├── InvalidMaxIterations   R-07
└── MalformedTrajectory    an imported file or a request does not describe a trajectory
"""

from __future__ import annotations

import reprlib

from chassis.errors import InvalidArgument, Violation, shortened


class InvalidDatasetName(InvalidArgument):
    """A dataset name that does not match `[A-Za-z0-9_-]+` (C-13)."""

    reason = "INVALID_DATASET_NAME"

    def __init__(self, name: str) -> None:
        message = f"Invalid dataset name: '{name}'"
        super().__init__(message, violations=[Violation("dataset", shortened(message), "C-13")])


class InvalidMaxIterations(InvalidArgument):
    """Fewer than one iteration was asked for (R-07)."""

    reason = "MAX_ITERATIONS_TOO_SMALL"

    def __init__(self) -> None:
        message = "max_iterations must be >= 1"
        super().__init__(message, violations=[Violation("max_iterations", message, "R-07")])


class MalformedTrajectory(InvalidArgument):
    """Input that does not describe a trajectory: the field, the value (shortened) and the broken rule."""

    reason = "MALFORMED_TRAJECTORY"

    def __init__(self, field: str, value: object, rule: str) -> None:
        shown = value if isinstance(value, str) else reprlib.repr(value)
        message = f"{field}: {shortened(shown)!r} {rule}"
        super().__init__(message, violations=[Violation(field, message)])
