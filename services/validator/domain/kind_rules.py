"""The rules of registered kinds, except CEL expressions, which an adapter evaluates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chassis.errors import shorten
from services.validator.domain.findings import ALLOWED_VALUES_SHOWN, Finding, display_text, is_blank
from services.validator.domain.kind_definition import Count, ForbiddenWords, Reference, Required, Rule
from services.validator.domain.pointers import MISSING, find_matches, format_path, format_trail, iterate_strings
from services.validator.domain.wording import PhraseFinders

MAX_FINDINGS_PER_RULE = 200


@dataclass(frozen=True, slots=True)
class RuleInput:
    """The input of a rule: the raw report, the ids of the request and the finders of words."""

    report: object
    valid_node_ids: Sequence[str]
    words: PhraseFinders


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """One violation of a rule: pointer, requirement and allowed values."""

    pointer: str
    requirement: str
    allowed: Sequence[str] = ()


def build_finding(rule: Rule, violation: RuleViolation) -> Finding:
    """Return the finding for a violation, with the rule's own text if it has one."""
    message = rule.message or f"{format_path(violation.pointer)} {violation.requirement}"
    allowed = tuple(violation.allowed[:ALLOWED_VALUES_SHOWN])
    return Finding(rule.code, message, violation.pointer, rule.severity, allowed, len(violation.allowed))


def find_violations(
    check: Required | Reference | Count | ForbiddenWords, checked: RuleInput
) -> Iterator[RuleViolation]:
    """Yield every violation of the check, in document order."""
    match check:
        case Required():
            yield from _check_required(check, checked)
        case Reference():
            yield from _check_reference(check, checked)
        case Count():
            yield from _check_count(check, checked)
        case ForbiddenWords():
            yield from _check_forbidden_words(check, checked)


def _check_required(check: Required, checked: RuleInput) -> Iterator[RuleViolation]:
    for pointer, value in find_matches(checked.report, check.path):
        if value is MISSING or value is None:
            yield RuleViolation(pointer, "is required")
        elif isinstance(value, str) and is_blank(value):
            yield RuleViolation(pointer, "must be non-empty")


def _check_reference(check: Reference, checked: RuleInput) -> Iterator[RuleViolation]:
    allowed = check.values or tuple(checked.valid_node_ids)
    allowed_set = frozenset(allowed)
    for pointer, value in find_matches(checked.report, check.path):
        if value is MISSING:
            yield RuleViolation(pointer, "is required", allowed)
            continue
        members = (
            [(f"{pointer}/{index}", item) for index, item in enumerate(value)] if isinstance(value, list) else None
        )
        for member_pointer, member in members if members is not None else [(pointer, value)]:
            if not isinstance(member, str) or member not in allowed_set:
                yield RuleViolation(
                    member_pointer, f"'{shorten(display_text(member))}' is not in the list of allowed values", allowed
                )


def _check_count(check: Count, checked: RuleInput) -> Iterator[RuleViolation]:
    for pointer, value in find_matches(checked.report, check.path):
        count = len(value) if isinstance(value, list) else 0
        if count < check.least:
            yield RuleViolation(pointer, f"must have at least {check.least} items")
        elif check.most is not None and count > check.most:
            yield RuleViolation(pointer, f"must have at most {check.most} items")


def _check_forbidden_words(check: ForbiddenWords, checked: RuleInput) -> Iterator[RuleViolation]:
    finder = checked.words.get_finder(check.phrases)
    listed = ", ".join(shorten(phrase, 20) for phrase in check.phrases[:3])
    for path in check.paths:
        for pointer, value in find_matches(checked.report, path):
            for trail, text in iterate_strings(value):
                if finder.occurs_in(text):
                    yield RuleViolation(pointer + format_trail(trail), f"contains a forbidden phrase (e.g. {listed})")
