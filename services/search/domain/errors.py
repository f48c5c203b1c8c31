"""Errors of search.

InvalidArgument
├── TopKTooSmall            S-02
├── MinConfidenceNotANumber S-02
├── AlphaOutOfRange         S-07
├── UnknownTokenizer        S-27
├── InvalidEntry            a bullet or document that cannot be indexed
└── WrongVector             a vector of a request that does not fit the index
Unavailable
├── EmbeddingFailed         S-16, S-37 (`libs.embedding.errors`)
└── PlaybookUnreachable     the feed of a playbook failed before the requested revision
DeadlineExceeded
└── RevisionNotReached      `min_revision` did not arrive in time
"""

from __future__ import annotations

from chassis.errors import DeadlineExceeded, InvalidArgument, Unavailable, Violation, shorten
from chassis.field_errors import describe_value
from libs.embedding.errors import RETRY_AFTER_SECONDS


class TopKTooSmall(InvalidArgument):
    """The request asks for fewer than one result (S-02, S-40)."""

    reason = "TOP_K_TOO_SMALL"

    def __init__(self) -> None:
        message = "top_k must be >= 1"
        super().__init__(message, violations=[Violation("top_k", message, "S-02")])


class MinConfidenceNotANumber(InvalidArgument):
    """`min_confidence` is NaN (S-02)."""

    reason = "MIN_CONFIDENCE_NOT_A_NUMBER"

    def __init__(self) -> None:
        message = "min_confidence must be a number"
        super().__init__(message, violations=[Violation("min_confidence", message, "S-02")])


class AlphaOutOfRange(InvalidArgument):
    """The weight of the vector score is NaN or not in 0..1 (S-07)."""

    reason = "ALPHA_OUT_OF_RANGE"

    def __init__(self) -> None:
        message = "alpha must be between 0 and 1"
        super().__init__(message, violations=[Violation("alpha", message, "S-07")])


class UnknownTokenizer(InvalidArgument):
    """No tokeniser has this name (S-27)."""

    reason = "UNKNOWN_TOKENIZER"

    def __init__(self, name: str, names: list[str]) -> None:
        message = f"unknown tokenizer {shorten(name)!r}: choose one of {', '.join(names)}"
        super().__init__(message, violations=[Violation("tokenizer", message, "S-27")])


class InvalidEntry(InvalidArgument):
    """An entry cannot be indexed: the field, the value (shortened) and the broken rule."""

    reason = "INVALID_ENTRY"

    def __init__(self, field: str, value: object, rule: str) -> None:
        message = f"{field}: {describe_value(value)} {rule}"
        super().__init__(message, violations=[Violation(field, message)])


class WrongVector(InvalidArgument):
    """A query vector of another model, another dimension, or with values that are not finite."""

    reason = "WRONG_VECTOR"

    def __init__(self, description: str) -> None:
        super().__init__(f"embedding: {description}", violations=[Violation("query.embedding", description)])


class PlaybookUnreachable(Unavailable):
    """The feed of the playbook failed before the requested revision arrived."""

    reason = "PLAYBOOK_UNREACHABLE"

    def __init__(self, dataset: str, cause: str) -> None:
        super().__init__(
            f"search cannot follow the changes of playbook {dataset}: {cause}", retry_after=RETRY_AFTER_SECONDS
        )


class RevisionNotReached(DeadlineExceeded):
    """The index did not reach `min_revision` within the deadline."""

    reason = "REVISION_NOT_REACHED"

    def __init__(self, dataset: str, present: int, requested: int) -> None:
        super().__init__(f"the index of {dataset} stands at revision {present}, revision {requested} did not arrive")
