"""Errors of the planner, with the reasons that clients see."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from chassis.errors import (
    Aborted,
    AlreadyExists,
    DataLoss,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Violation,
    shorten,
)


class EmptyQuery(InvalidArgument):
    """The query has no visible character (P-24)."""

    reason = "EMPTY_QUERY"

    def __init__(self) -> None:
        message = "query cannot be empty"
        super().__init__(message, violations=[Violation("query", message)])


class PriceUnknown(InvalidArgument):
    """A limit of money cannot be kept, because the price of the model is unknown."""

    reason = "PRICE_UNKNOWN"

    def __init__(self, max_cost_micro_usd: int, model: str) -> None:
        field = "budget.max_cost_micro_usd"
        rule = (
            f"is {max_cost_micro_usd}, but the price of the model {model} is unknown, so its cost cannot be limited: "
            "set LLM_PRICES, limit max_tokens instead, or set budget.allow_unknown_price"
        )
        super().__init__(f"{field} {rule}", violations=[Violation(field, rule)])


class InvalidPlan(InvalidArgument):
    """The step ids or dependencies cannot be executed (P-12)."""

    reason = "INVALID_PLAN"

    def __init__(self, messages: Sequence[str]) -> None:
        shown = messages[:50]
        super().__init__("; ".join(shown), violations=[Violation("plan.steps", message) for message in shown])


class UnknownCollection(NotFound):
    """The plan is to search a collection that does not exist, or that is outside of the prefix."""

    reason = "COLLECTION_NOT_FOUND"

    def __init__(self, name: str, collections: Sequence[str]) -> None:
        near = get_close_matches(name, collections, n=3, cutoff=0.5)
        hint = f"; similar names: {', '.join(near)}" if near else ""
        super().__init__(f"there is no dataset or collection {shorten(name)!r}{hint}")


class AnswerRefused(InvalidArgument):
    """The answer does not belong to the open question of this execution, plan version and step."""

    reason = "ANSWER_REFUSED"


class ExecutionNotFound(NotFound):
    """No execution has this id (P-130)."""

    reason = "EXECUTION_NOT_FOUND"

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"Run {execution_id} not found")


class ExecutionNotPaused(FailedPrecondition):
    """The execution has no open question (P-130)."""

    reason = "EXECUTION_NOT_PAUSED"

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"Run {execution_id} is not paused")


class ExecutionEnded(FailedPrecondition):
    """The execution has ended and accepts no changes."""

    reason = "EXECUTION_ENDED"

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"Execution {execution_id} has ended")


class TooMuchInformation(FailedPrecondition):
    """The execution has as much information as it may have."""

    reason = "TOO_MUCH_INFORMATION"

    def __init__(self, rule: str) -> None:
        super().__init__(f"text {rule}", violations=[Violation("text", rule)])


class PlanAlreadyExecuted(AlreadyExists):
    """The plan already has an execution; no plan is executed twice."""

    reason = "PLAN_ALREADY_EXECUTED"

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"Plan {execution_id} has run already; watch its execution or make a new plan")


class InvalidWebhookUrl(InvalidArgument):
    """The planner does not send messages to this URL."""

    reason = "INVALID_WEBHOOK_URL"

    def __init__(self, url: str, rule: str) -> None:
        # A query often holds a secret of the receiver.
        super().__init__(f"url {shorten(url.partition('?')[0])!r} {rule}", violations=[Violation("url", rule)])


class TooManyWebhooks(FailedPrecondition):
    """The execution has as many webhooks as it may have."""

    reason = "TOO_MANY_WEBHOOKS"

    def __init__(self, execution_id: str, limit: int) -> None:
        super().__init__(f"Execution {execution_id} has {limit} webhooks, which is the limit; delete one")


class LeaseLost(Aborted):
    """Another replica took over the execution; this one must not write to it any more."""

    reason = "LEASE_LOST"

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"Execution {execution_id} was taken over by another replica")


class CorruptLog(DataLoss):
    """The event log of an execution contradicts its chain of hashes, or cannot be decoded."""

    reason = "CORRUPT_LOG"
