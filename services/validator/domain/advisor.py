"""Rules of the Advisor report (spec V-07, V-08, V-19 to V-29)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.validator.domain.findings import Finding, Findings, ValidationResult, is_blank
from services.validator.domain.pointers import format_trail, iterate_strings
from services.validator.domain.wording import ADVISOR_WORDS, LITERAL, PhraseFinder, PhraseFinders

ECHOED_FIELDS = ("target_node_id", "target_title", "current_status")
"""Fields that repeat the user's node; their words are the user's own (V-78)."""

OPTION_TEXTS = ("next_action", "necessary_info", "criteria_note")
LABEL_WORDS = ("案", "パターン", "候補")


def validate_advisor_report(
    report: object, valid_node_ids: Sequence[str] | None, words: PhraseFinders = LITERAL
) -> ValidationResult:
    """Return all findings on a raw Advisor report, of whatever JSON types. Never raises."""
    findings = Findings()
    if not isinstance(report, dict):
        findings.error_text("REPORT_NOT_OBJECT", "", "report must be an object")
        return findings.result()
    ids = [node_id for node_id in valid_node_ids or () if isinstance(node_id, str)]
    _check_fields(report, findings)
    _check_target(report, ids, findings)
    _check_options(report, waive_count=not ids and _is_blank_string(report.get("target_node_id")), findings=findings)
    _check_words(report, words.get_finder(ADVISOR_WORDS), findings)
    _advise(report, findings)
    return findings.result()


def _check_fields(report: dict[str, Any], findings: Findings) -> None:
    for name in ECHOED_FIELDS:
        if not isinstance(report.get(name), str):
            findings.error("ADVISOR_FIELD_REQUIRED", f"/{name}", "is required")
    if not isinstance(report.get("options"), list):
        findings.error("ADVISOR_OPTIONS_REQUIRED", "/options", "is required (array)")
    for name in ("next_decision", "summary"):
        value = report.get(name)
        if value is None:
            findings.error(f"{name.upper()}_REQUIRED", f"/{name}", "is required")
        elif is_blank(value):
            findings.error(f"{name.upper()}_BLANK", f"/{name}", "must be non-empty")


def _check_target(report: dict[str, Any], ids: list[str], findings: Findings) -> None:
    target = report.get("target_node_id")
    if ids and isinstance(target, str) and (target not in ids or not target.strip()):
        findings.error("ADVISOR_TARGET_UNKNOWN", "/target_node_id", "is not in valid node list", ids)


def _check_options(report: dict[str, Any], *, waive_count: bool, findings: Findings) -> None:
    options = report.get("options")
    if not isinstance(options, list):
        return
    if len(options) < 2 and not waive_count:
        findings.error("ADVISOR_OPTIONS_TOO_FEW", "/options", "must have at least 2 items")
    for index, option in enumerate(options):
        if not isinstance(option, dict):
            findings.error("ELEMENT_NOT_OBJECT", f"/options/{index}", "must be an object")
            continue
        for name in OPTION_TEXTS:
            if is_blank(option.get(name)):
                findings.error("ADVISOR_OPTION_TEXT_BLANK", f"/options/{index}/{name}", "is required")
        risks = option.get("risks")
        if not isinstance(risks, list) or all(is_blank(risk) for risk in risks):
            findings.error(
                "ADVISOR_RISKS_TOO_FEW", f"/options/{index}/risks", "is required and must have at least 1 item"
            )


def _check_words(report: dict[str, Any], words: PhraseFinder, findings: Findings) -> None:
    pointers = [
        format_trail(trail)
        for name, value in report.items()
        if name not in ECHOED_FIELDS
        for trail, text in iterate_strings(value, (None, name))
        if words.occurs_in(text)
    ]
    if pointers:
        message = "output contains forbidden word (e.g. ベスト, 推奨)"
        findings.errors.append(Finding("ADVISOR_WORD", message, pointers[0], other_pointers=tuple(pointers[1:])))


def _advise(report: dict[str, Any], findings: Findings) -> None:
    criteria = report.get("criteria")
    if not isinstance(criteria, list) or len(criteria) < 2:
        findings.warning("ADVISOR_CRITERIA_FEW", "/criteria", "criteria should have at least 2 items")
    options = report.get("options")
    for index, option in enumerate(options if isinstance(options, list) else ()):
        if isinstance(option, dict) and not _names_an_option(option.get("label")):
            message = f"options[{index}].label should contain 案/パターン/候補"
            findings.warning("ADVISOR_LABEL", f"/options/{index}/label", message)


def _names_an_option(label: object) -> bool:
    return isinstance(label, str) and any(word in label for word in LABEL_WORDS)


def _is_blank_string(value: object) -> bool:
    return isinstance(value, str) and not value.strip()
