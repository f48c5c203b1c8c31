"""The rules of registered kinds, except CEL expressions, which an adapter evaluates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chassis.errors import shorten
from services.validator.domain.findings import ALLOWED_VALUES_SHOWN, Finding, is_blank, shown
from services.validator.domain.kind_definition import Count, ForbiddenWords, Reference, Required, Rule
from services.validator.domain.pointers import MISSING, matches, path_of, pointer_along, strings_in
from services.validator.domain.wording import Words

MAX_FINDINGS_PER_RULE = 200


@dataclass(frozen=True, slots=True)
class Checked:
    """What a rule sees: the raw report, the ids of the request and the way of looking for words."""

    report: object
    valid_node_ids: Sequence[str]
    words: Words


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a rule is broken, and how."""

    pointer: str
    requirement: str
    allowed: Sequence[str] = ()


def finding_of(rule: Rule, violation: Violation) -> Finding:
    """The finding for a violation, with the rule's own text if it has one."""
    message = rule.message or f"{path_of(violation.pointer)} {violation.requirement}"
    allowed = tuple(violation.allowed[:ALLOWED_VALUES_SHOWN])
    return Finding(rule.code, message, violation.pointer, rule.severity, allowed, len(violation.allowed))


def violations(check: Required | Reference | Count | ForbiddenWords, checked: Checked) -> Iterator[Violation]:
    """Every place where the check fails, in document order."""
    match check:
        case Required():
            yield from _required(check, checked)
        case Reference():
            yield from _reference(check, checked)
        case Count():
            yield from _count(check, checked)
        case ForbiddenWords():
            yield from _forbidden_words(check, checked)


def _required(check: Required, checked: Checked) -> Iterator[Violation]:
    for pointer, value in matches(checked.report, check.path):
        if value is MISSING or value is None:
            yield Violation(pointer, "is required")
        elif isinstance(value, str) and is_blank(value):
            yield Violation(pointer, "must be non-empty")


def _reference(check: Reference, checked: Checked) -> Iterator[Violation]:
    allowed = check.values or tuple(checked.valid_node_ids)
    known = frozenset(allowed)
    for pointer, value in matches(checked.report, check.path):
        if value is MISSING:
            yield Violation(pointer, "is required", allowed)
            continue
        members = (
            [(f"{pointer}/{index}", item) for index, item in enumerate(value)] if isinstance(value, list) else None
        )
        for place, member in members if members is not None else [(pointer, value)]:
            if not isinstance(member, str) or member not in known:
                yield Violation(place, f"'{shorten(shown(member))}' is not in the list of allowed values", allowed)


def _count(check: Count, checked: Checked) -> Iterator[Violation]:
    for pointer, value in matches(checked.report, check.path):
        count = len(value) if isinstance(value, list) else 0
        if count < check.least:
            yield Violation(pointer, f"must have at least {check.least} items")
        elif check.most is not None and count > check.most:
            yield Violation(pointer, f"must have at most {check.most} items")


def _forbidden_words(check: ForbiddenWords, checked: Checked) -> Iterator[Violation]:
    finder = checked.words.finder(check.phrases)
    listed = ", ".join(shorten(phrase, 20) for phrase in check.phrases[:3])
    for path in check.paths:
        for pointer, value in matches(checked.report, path):
            for trail, text in strings_in(value):
                if finder.occurs_in(text):
                    yield Violation(pointer + pointer_along(trail), f"contains a forbidden phrase (e.g. {listed})")
