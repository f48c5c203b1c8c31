"""Errors of the reflector; all of them are invalid arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chassis.errors import InvalidArgument, Violation, shorten
from chassis.field_errors import DATASET_NAME_RULE, describe_value


class InvalidTrajectoryDataset(InvalidArgument):
    """A dataset name that does not match `[A-Za-z0-9_-]+` (C-13)."""

    reason = "INVALID_DATASET_NAME"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Invalid dataset name: '{name}'", violations=[Violation("dataset", f"dataset {DATASET_NAME_RULE}", "C-13")]
        )


class InvalidMaxIterations(InvalidArgument):
    """`max_iterations` is less than one (R-07)."""

    reason = "MAX_ITERATIONS_TOO_SMALL"

    def __init__(self) -> None:
        message = "max_iterations must be >= 1"
        super().__init__(message, violations=[Violation("max_iterations", message, "R-07")])


class MalformedTrajectory(InvalidArgument):
    """Input that is no valid trajectory; names the field, the value (shorten) and the violated rule."""

    reason = "MALFORMED_TRAJECTORY"

    def __init__(self, field: str, value: object, rule: str) -> None:
        message = f"{field}: {describe_value(value)} {rule}"
        super().__init__(message, violations=[Violation(field, message)])


class UnknownFormat(InvalidArgument):
    """A record that matches no format; names its fields, and the reason for each format that was tried."""

    reason = "UNKNOWN_TRAJECTORY_FORMAT"

    def __init__(self, location: str, fields: Sequence[str], reasons: Mapping[str, str]) -> None:
        shown = shorten(", ".join(fields)) or "none"
        message = f"{location} is in none of the formats {', '.join(reasons)}; its fields are {shown}"
        violations = [Violation(f"as {name}", shorten(reason, 400)) for name, reason in reasons.items()]
        super().__init__(message, violations=violations)
