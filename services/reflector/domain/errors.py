"""What the reflector refuses, and why.

InvalidArgument
├── InvalidDatasetName     C-13, R-29
├── InvalidMaxIterations   R-07
├── MalformedTrajectory    an imported file or a request does not describe a trajectory
└── UnknownFormat          a file is in none of the formats; says what speaks against each
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence

from chassis.errors import InvalidArgument, Violation, shorten


class InvalidDatasetName(InvalidArgument):
    """A dataset name that does not match `[A-Za-z0-9_-]+` (C-13)."""

    reason = "INVALID_DATASET_NAME"

    def __init__(self, name: str) -> None:
        message = f"Invalid dataset name: '{name}'"
        super().__init__(message, violations=[Violation("dataset", shorten(message), "C-13")])


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
        message = f"{field}: {shorten(shown)!r} {rule}"
        super().__init__(message, violations=[Violation(field, message)])


class UnknownFormat(InvalidArgument):
    """A record that no format fits: its fields, and what speaks against each format that was tried."""

    reason = "UNKNOWN_TRAJECTORY_FORMAT"

    def __init__(self, where: str, fields: Sequence[str], against: Mapping[str, str]) -> None:
        shown = shorten(", ".join(fields)) or "none"
        message = f"{where} is in none of the formats {', '.join(against)}; its fields are {shown}"
        violations = [Violation(f"as {name}", shorten(complaint, 400)) for name, complaint in against.items()]
        super().__init__(message, violations=violations)
