"""Partial repair: the broken parts of a report, and the replacement of these parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from services.validator.domain.findings import Finding
from services.validator.domain.pointers import MISSING, build_pointer, escape_step, find_value, split_pointer


def find_broken_parts(report: Mapping[str, Any], findings: Sequence[Finding]) -> dict[str, list[str]]:
    """Return the pointers of the smallest replaceable parts, each with its errors, in the order of the findings.

    A part is an element of a top-level array, else a top-level value. Empty when only a whole new report will do.
    """
    parts: dict[str, list[str]] = {}
    for finding in findings:
        for pointer in finding.pointers:
            if not pointer:
                return {}
            messages = parts.setdefault(_find_part(report, pointer), [])
            if finding.message not in messages:
                messages.append(finding.message)
    return _remove_nested(parts)


def _find_part(report: Mapping[str, Any], pointer: str) -> str:
    top, *rest = split_pointer(pointer)
    value = report.get(top)
    if rest and isinstance(value, list) and find_value(value, build_pointer(rest[0])) is not MISSING:
        return f"/{escape_step(top)}/{rest[0]}"
    return f"/{escape_step(top)}"


def _remove_nested(parts: dict[str, list[str]]) -> dict[str, list[str]]:
    whole: dict[str, list[str]] = {}
    for pointer, messages in parts.items():
        outer = pointer.rpartition("/")[0]
        whole.setdefault(outer if outer in parts else pointer, []).extend(messages)
    return whole


def apply_repairs(
    report: Mapping[str, Any], parts: Mapping[str, Sequence[str]], answer: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the report with the answered parts replaced; None if the answer has no value for any of them.

    Every other part is the very same object as before. Answers for parts that were not asked for are ignored.
    """
    answers = answer.get("repairs")
    values: dict[str, Any] = {}
    for item in answers if isinstance(answers, list) else ():
        if isinstance(item, dict) and isinstance(item.get("pointer"), str) and "value" in item:
            values.setdefault(item["pointer"], item["value"])
    values = {pointer: values[pointer] for pointer in parts if pointer in values}
    if not values:
        return None
    new = dict(report)
    for pointer, value in values.items():
        top, *rest = split_pointer(pointer)
        if not rest:
            new[top] = value
            continue
        elements = list(new[top])
        elements[int(rest[0])] = value
        new[top] = elements
    return new
