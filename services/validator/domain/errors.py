"""Errors of the validator that cross its boundary, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from chassis.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    Unavailable,
    Violation,
    shorten,
)


class ReportNotJson(InvalidArgument):
    """The report is not JSON text (V-75)."""

    reason = "REPORT_NOT_JSON"


class InputsNotObject(InvalidArgument):
    """The inputs of a registered kind are not the JSON text of an object."""

    reason = "INPUTS_NOT_OBJECT"


class ReportTypeUnknown(InvalidArgument):
    """No kind has this name (G-28)."""

    reason = "REPORT_TYPE_UNKNOWN"

    def __init__(self, name: str, registered: Sequence[str] = ()) -> None:
        names = ["'organizer'", "'advisor'", *(f"'{kind}'" for kind in registered[:20])]
        rule = f"type must be {' or '.join(names)}"
        super().__init__(rule, violations=[Violation("type", f"{rule} (got {shorten(name)!r})")])


class KindBuiltIn(InvalidArgument):
    """RunReport was called with a built-in kind."""

    reason = "REPORT_KIND_BUILT_IN"

    def __init__(self, name: str) -> None:
        super().__init__(f"report kind '{name}' is built in: call Run{name.capitalize()} with a dashboard")


class PromptUnusable(FailedPrecondition):
    """A prompt cannot be built from the configured template or time zone."""

    reason = "PROMPT_UNUSABLE"


class KindInvalid(InvalidArgument):
    """A kind's schema or rules do not compile; one violation per fault."""

    reason = "REPORT_KIND_INVALID"


class KindNotFound(NotFound):
    """No registered kind has this name."""

    reason = "REPORT_KIND_NOT_FOUND"

    def __init__(self, name: str) -> None:
        super().__init__(f"report kind '{shorten(name)}' is not registered")


class KindExists(AlreadyExists):
    """A kind of this name exists."""

    reason = "REPORT_KIND_EXISTS"

    def __init__(self, name: str) -> None:
        super().__init__(f"report kind '{name}' exists already; delete it first or choose another name")


class ModelKeyMissing(FailedPrecondition):
    """The chosen model needs a key, or several variables, that are not set (V-37)."""

    reason = "MODEL_KEY_MISSING"

    def __init__(self, *variables: str) -> None:
        names = ", ".join(variables)
        super().__init__(f"{names} {'is' if len(variables) == 1 else 'are'} not set", metadata={"variable": names})


class ModelIdInvalid(InvalidArgument):
    """A model id is not `provider:model-name` (V-55)."""

    reason = "MODEL_ID_INVALID"

    def __init__(self, model_id: str) -> None:
        super().__init__(f"Invalid model id '{shorten(model_id)}': expected provider:model-name")


class EvaluationInvalid(InvalidArgument):
    """Metrics, weights or texts of an evaluation break a rule."""

    reason = "EVALUATION_INVALID"


class ComparisonsInvalid(InvalidArgument):
    """Comparisons or tasks break a rule."""

    reason = "COMPARISONS_INVALID"


class NotIdentifiable(InvalidArgument):
    """Comparisons do not determine the strengths of all contestants."""

    reason = "COMPARISONS_NOT_IDENTIFIABLE"


class EvaluatorAPIError(Unavailable):
    """The judge of a metric failed (V-61)."""

    reason = "EVALUATOR_FAILED"

    def __init__(self, provider: str, metric_name: str, retry_count: int, cause: Exception) -> None:
        super().__init__(
            f"Failed to evaluate metric '{metric_name}' after {retry_count} retries: {cause}",
            metadata={"provider": provider, "metric_name": metric_name, "retry_count": str(retry_count)},
        )
        self.provider = provider
        self.metric_name = metric_name
        self.retry_count = retry_count


class JudgmentAPIError(Unavailable):
    """The judge of prospects failed (V-66)."""

    reason = "JUDGMENT_FAILED"

    def __init__(self, retry_count: int, cause: Exception) -> None:
        super().__init__(
            f"Failed to judge improvement prospects after {retry_count} retries: {cause}",
            metadata={"retry_count": str(retry_count)},
        )


class SubmissionNotFound(NotFound):
    """The leaderboard has no such entry."""

    reason = "SUBMISSION_NOT_FOUND"
