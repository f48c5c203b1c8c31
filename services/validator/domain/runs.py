"""A run of generate, validate, correct: its attempts and its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from services.validator.domain.findings import NOTHING_FOUND, Finding, ValidationResult
from services.validator.domain.wording import Wording

MAX_REGENERATIONS = 2


class Repair(StrEnum):
    """The part of a report that a regeneration asks for."""

    FULL = "full"
    PARTIAL = "partial"


class StopReason(StrEnum):
    """The reason for the end of a run."""

    VALID = "valid"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    REPEATED_FAULTS = "repeated_faults"
    DASHBOARD_INVALID = "dashboard_invalid"
    TARGET_UNKNOWN = "target_unknown"
    MODEL_OFFLINE = "model_offline"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run."""

    wording: Wording = Wording.LITERAL
    repair: Repair = Repair.FULL
    max_regenerations: int = MAX_REGENERATIONS

    def __post_init__(self) -> None:
        if not 0 <= self.max_regenerations <= MAX_REGENERATIONS:
            raise ValueError(f"max_regenerations must be 0..{MAX_REGENERATIONS}, got: {self.max_regenerations}")


DEFAULT_OPTIONS = RunOptions()


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of model calls, exact when `calls_without_count` is 0."""

    input_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    calls_without_count: int = 0

    @classmethod
    def of_call(cls, input_tokens: int | None, output_tokens: int | None) -> TokenUsage:
        """Return the usage of one call; a count is None if the provider reported none."""
        uncounted = input_tokens is None or output_tokens is None
        return cls(input_tokens or 0, output_tokens or 0, 1, int(uncounted))

    @classmethod
    def total(cls, parts: Iterable[TokenUsage]) -> TokenUsage:
        """Return the sum of the parts."""
        parts = tuple(parts)
        return cls(
            sum(part.input_tokens for part in parts),
            sum(part.output_tokens for part in parts),
            sum(part.calls for part in parts),
            sum(part.calls_without_count for part in parts),
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of a model and its outcome; without a report, `report` is None and `failure` is set.

    `report` is the raw object; in a partial repair it is the previous one with its broken parts replaced.
    """

    number: int
    repair: Repair
    prompt: str
    answer: str = ""
    report: Mapping[str, Any] | None = None
    result: ValidationResult = NOTHING_FOUND
    failure: str = ""
    usage: TokenUsage = TokenUsage()

    @property
    def ok(self) -> bool:
        """Return whether there is a valid report."""
        return self.report is not None and self.result.ok

    @property
    def errors(self) -> list[str]:
        """Return the failure if there is no report, else the errors of the report."""
        return [self.failure] if self.failure else self.result.errors


@dataclass(frozen=True, slots=True)
class ReportRun:
    """The outcome of a run (V-43). Not ok: `report` is the last parsed one and `errors` the latest errors."""

    ok: bool
    report: Mapping[str, Any] | None
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    stop_reason: StopReason
    rendered: str | None = None
    attempts: tuple[Attempt, ...] = ()

    @property
    def retry_count(self) -> int:
        """Return the number of regenerations, 0 to 2 (V-44)."""
        return max(0, len(self.attempts) - 1)

    @property
    def usage(self) -> TokenUsage:
        """Return the tokens of all attempts."""
        return TokenUsage.total(attempt.usage for attempt in self.attempts)

    @property
    def best_attempt(self) -> Attempt | None:
        """Return the attempt with the fewest errors, the later one of equals; None if no answer held a report."""
        parsed = [attempt for attempt in self.attempts if attempt.report is not None]
        return min(parsed, key=lambda attempt: (len(attempt.errors), -attempt.number), default=None)


def refuse_run(error: str, reason: StopReason) -> ReportRun:
    """Return the outcome of a run that could not start: no model was called (V-33, V-34, offline)."""
    return ReportRun(False, None, (error,), (), reason)


def list_fixed_findings(run: ReportRun) -> list[tuple[Finding, int]]:
    """Return the errors that a regeneration removed, each with the number of that attempt."""
    reports = [attempt for attempt in run.attempts if attempt.report is not None]
    fixed: list[tuple[Finding, int]] = []
    for before, after in pairwise(reports):
        left = {(finding.code, finding.pointer) for finding in after.result.error_findings}
        gone = [finding for finding in before.result.error_findings if (finding.code, finding.pointer) not in left]
        fixed.extend((finding, after.number) for finding in gone)
    return fixed
