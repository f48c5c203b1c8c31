"""Findings on a report, and the result of its validation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from services.validator.domain.pointers import format_path

ALLOWED_VALUES_SHOWN = 20


class Severity(StrEnum):
    """The severity of a finding; an error makes the report invalid."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of one rule.

    `pointer` is the JSON pointer of the faulty value or of where a missing one belongs, `other_pointers` are further
    places where the rule reports once for the whole report (V-27). `allowed_values` are the first
    `ALLOWED_VALUES_SHOWN` of `allowed_total` accepted values; both are empty where the rule accepts no finite set.
    """

    code: str
    message: str
    pointer: str
    severity: Severity = Severity.ERROR
    allowed_values: tuple[str, ...] = ()
    allowed_values_total: int = 0
    other_pointers: tuple[str, ...] = ()

    @property
    def pointers(self) -> tuple[str, ...]:
        """Return all pointers of the violation."""
        return (self.pointer, *self.other_pointers)


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """All findings on one report, errors before warnings (V-04)."""

    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether there is no error."""
        return not self.errors

    @property
    def errors(self) -> list[str]:
        """Return the messages of the errors, in the order of the rules."""
        return [finding.message for finding in self.findings if finding.severity is Severity.ERROR]

    @property
    def warnings(self) -> list[str]:
        """Return the messages of the warnings, in the order of the rules."""
        return [finding.message for finding in self.findings if finding.severity is Severity.WARNING]

    @property
    def error_findings(self) -> tuple[Finding, ...]:
        """Return the findings that make the report invalid."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)


NOTHING_FOUND = ValidationResult()


@dataclass(slots=True)
class Findings:
    """Collects findings in order; nothing is built while a report is clean."""

    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)

    def error(self, code: str, pointer: str, requirement: str, allowed: Sequence[str] = ()) -> None:
        """Add the error `<path> <requirement>`, with `pointer` in the notation of messages."""
        self.error_text(code, pointer, f"{format_path(pointer)} {requirement}", allowed)

    def error_text(self, code: str, pointer: str, message: str, allowed: Sequence[str] = ()) -> None:
        """Add an error with a text of its own."""
        shown_values = tuple(allowed[:ALLOWED_VALUES_SHOWN])
        self.errors.append(Finding(code, message, pointer, Severity.ERROR, shown_values, len(allowed)))

    def warning(self, code: str, pointer: str, message: str) -> None:
        """Add a warning."""
        self.warnings.append(Finding(code, message, pointer, Severity.WARNING))

    def result(self) -> ValidationResult:
        """Return all findings so far."""
        if not self.errors and not self.warnings:
            return NOTHING_FOUND
        return ValidationResult((*self.errors, *self.warnings))


def is_blank(value: object) -> bool:
    """Return whether a value is anything but a string with a visible character (V-06)."""
    return not isinstance(value, str) or not value.strip()


def display_text(value: object) -> str:
    """Return the text of a value in messages: a string itself, nothing for null, JSON for the rest (V-11)."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"
