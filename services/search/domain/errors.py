"""What search refuses or cannot do, and why.

InvalidArgument
├── TopKTooSmall            S-02
├── MinConfidenceNotANumber S-02
├── AlphaOutOfRange         S-07
├── UnknownTokenizer        S-27
└── InvalidEntry            a bullet or document that cannot be indexed
Unavailable
└── EmbeddingFailed         S-16, S-37
"""

from __future__ import annotations

from chassis.errors import InvalidArgument, Unavailable, Violation, shortened


class TopKTooSmall(InvalidArgument):
    """Fewer than one result was asked for (S-02, S-40)."""

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
    """A tokeniser nobody wrote (S-27)."""

    reason = "UNKNOWN_TOKENIZER"

    def __init__(self, name: str, known: list[str]) -> None:
        message = f"unknown tokenizer {shortened(name)!r}: choose one of {', '.join(known)}"
        super().__init__(message, violations=[Violation("tokenizer", message, "S-27")])


class InvalidEntry(InvalidArgument):
    """Something that cannot be indexed: the field, the value (shortened) and the broken rule."""

    reason = "INVALID_ENTRY"

    def __init__(self, field: str, value: object, rule: str) -> None:
        message = f"{field}: {shortened(str(value))!r} {rule}"
        super().__init__(message, violations=[Violation(field, message)])


class EmbeddingFailed(Unavailable):
    """The embedding model did not answer, or answered something that is not the embeddings asked for (S-16, S-37)."""

    reason = "EMBEDDING_FAILED"

    def __init__(self, cause: str) -> None:
        super().__init__(f"Embedding failed: {cause}", retry_after=1.0)
