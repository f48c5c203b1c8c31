"""Errors of targets."""

from __future__ import annotations

from chassis.errors import InvalidArgument, Violation, shorten


class InvalidTarget(InvalidArgument):
    """The text of a target is no expression that a guard can evaluate within its limits."""

    reason = "TARGET_INVALID"

    def __init__(self, source: str, rule: str, field: str = "target.expression") -> None:
        message = f"{field} {shorten(source)!r} {rule}"
        super().__init__(message, violations=[Violation(field, message, rule)])
        self.rule = rule


class EvaluationFailed(Exception):
    """A target cannot be evaluated for a call: a field is missing, a type is wrong, or it takes too many steps.

    The call is allowed, and the failure is counted.
    """
