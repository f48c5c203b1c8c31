"""Errors of the evidence service that cross its boundary, each with its reason."""

from __future__ import annotations

from chassis.errors import FailedPrecondition, InvalidArgument, NotFound, Violation, shorten


class ServingNotFound(NotFound):
    """The dataset has no serving with this id."""

    reason = "SERVING_NOT_FOUND"

    def __init__(self, dataset: str, serving_id: str) -> None:
        super().__init__(f"dataset '{dataset}' has no serving '{serving_id}': use the serving_id that Recall returned")


class TrialsNotFound(NotFound):
    """The dataset never had trials."""

    reason = "TRIALS_NOT_FOUND"

    def __init__(self, dataset: str) -> None:
        super().__init__(f"dataset '{dataset}' has no trials; start them with: hansei trials start {dataset}")


class DecisionNotFound(NotFound):
    """The dataset has no decision with this number."""

    reason = "DECISION_NOT_FOUND"

    def __init__(self, dataset: str, number: int, command: str = "hansei decisions") -> None:
        super().__init__(f"dataset '{dataset}' has no decision {number}; list them with: {command} {dataset}")


class DecisionNotCurrent(FailedPrecondition):
    """A decision cannot be undone, because the bullet has another state or is not measured any more."""

    reason = "DECISION_NOT_CURRENT"

    def __init__(self, dataset: str, number: int, bullet_id: str) -> None:
        super().__init__(
            f"decision {number} of dataset '{dataset}' is not the newest one about bullet '{bullet_id}',"
            " or all measurements were restarted since: undo the newest one"
        )


class InvalidCallArguments(InvalidArgument):
    """The arguments of a tool call are no object of JSON."""

    reason = "CALL_ARGUMENTS_INVALID"

    def __init__(self, field: str, text: str, rule: str) -> None:
        message = f"{field} {shorten(text)!r} {rule}"
        super().__init__(message, violations=[Violation(field, message, rule)])
