"""The rules of registered kinds, except CEL expressions, which an adapter evaluates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chassis.errors import shorten
from services.validator.domain.findings import ALLOWED_VALUES_SHOWN, Finding, display_text, is_blank
from services.validator.domain.kind_definition import Count, ForbiddenWords, Reference, Required, Rule
from services.validator.domain.pointers import MISSING, find_matches, format_path, format_trail, iterate_strings
from services.validator.domain.wording import CheckTime, PhraseFinder, PhraseFinders

MAX_FINDINGS_PER_RULE = 200

Matches = Iterator[tuple[str, object]]
"""Pointers with their values."""


@dataclass(frozen=True, slots=True)
class RuleInput:
    """The input of a rule: the raw report, the ids of the request and the finders of words.

    `start_timer` starts the time of one rule.
    """

    report: object
    valid_node_ids: Sequence[str]
    words: PhraseFinders
    start_timer: Callable[[], CheckTime]


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """One violation of a rule: pointer, requirement and allowed values.

    With `is_limit` the rule was not checked in full: its own text does not apply.
    """

    pointer: str
    requirement: str
    allowed: Sequence[str] = ()
    is_limit: bool = False


def build_finding(rule: Rule, violation: RuleViolation) -> Finding:
    """Return the finding for a violation, with the rule's own text if it has one."""
    message = (not violation.is_limit and rule.message) or f"{format_path(violation.pointer)} {violation.requirement}"
    allowed = tuple(violation.allowed[:ALLOWED_VALUES_SHOWN])
    return Finding(rule.code, message, violation.pointer, rule.severity, allowed, len(violation.allowed))


def find_violations(
    check: Required | Reference | Count | ForbiddenWords, checked: RuleInput
) -> Iterator[RuleViolation]:
    """Yield every violation of the check, in document order. Raises what the timer of the rule raises."""
    match check:
        case Required(path):
            yield from _check_required(_find_in_time(path, checked))
        case Reference(path, values):
            yield from _check_reference(_find_in_time(path, checked), values or tuple(checked.valid_node_ids))
        case Count(path):
            yield from _check_count(check, _find_in_time(path, checked))
        case ForbiddenWords():
            # A finder is made once for all reports: that is not the work of one rule.
            finder = checked.words.get_finder(check.phrases)
            yield from _check_forbidden_words(check, finder, checked)


def _find_in_time(path: str, checked: RuleInput) -> Matches:
    return _iterate_in_time(find_matches(checked.report, path), checked.start_timer())


def _iterate_in_time(matches: Matches, check_time: CheckTime) -> Matches:
    for match_ in matches:
        check_time()
        yield match_


def _check_required(matches: Matches) -> Iterator[RuleViolation]:
    for pointer, value in matches:
        if value is MISSING or value is None:
            yield RuleViolation(pointer, "is required")
        elif isinstance(value, str) and is_blank(value):
            yield RuleViolation(pointer, "must be non-empty")


def _check_reference(matches: Matches, allowed: Sequence[str]) -> Iterator[RuleViolation]:
    allowed_set = frozenset(allowed)
    for pointer, value in matches:
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


def _check_count(check: Count, matches: Matches) -> Iterator[RuleViolation]:
    for pointer, value in matches:
        count = len(value) if isinstance(value, list) else 0
        if count < check.least:
            yield RuleViolation(pointer, f"must have at least {check.least} items")
        elif check.most is not None and count > check.most:
            yield RuleViolation(pointer, f"must have at most {check.most} items")


def _check_forbidden_words(check: ForbiddenWords, finder: PhraseFinder, checked: RuleInput) -> Iterator[RuleViolation]:
    check_time = checked.start_timer()
    listed = ", ".join(shorten(phrase, 20) for phrase in check.phrases[:3])
    for path in check.paths:
        for pointer, value in _iterate_in_time(find_matches(checked.report, path), check_time):
            for trail, text in iterate_strings(value):
                if finder.occurs_in(text, check_time):
                    yield RuleViolation(pointer + format_trail(trail), f"contains a forbidden phrase (e.g. {listed})")
