"""Rules of the Organizer report (spec V-07 to V-18)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from services.validator.domain.findings import Findings, ValidationResult, display_text, is_blank
from services.validator.domain.pointers import format_path
from services.validator.domain.wording import LITERAL, ORGANIZER_PHRASES, PhraseFinder, PhraseFinders

DECOMPOSITIONS = "decomposition_proposals"
GROUPINGS = "grouping_proposals"
RELATIONS = "relation_proposals"
ARRAYS = (DECOMPOSITIONS, GROUPINGS, RELATIONS)

_PHRASE_REQUIREMENT = "contains forbidden phrase (e.g. べき, してください)"
_NOT_IN_LIST = "is not in valid node list"


def validate_organizer_report(
    report: object, valid_node_ids: Sequence[str] | None, words: PhraseFinders = LITERAL
) -> ValidationResult:
    """Return all findings on a raw Organizer report, of whatever JSON types. Never raises."""
    findings = Findings()
    if not isinstance(report, dict):
        findings.error_text("REPORT_NOT_OBJECT", "", "report must be an object")
        return findings.result()
    ids = [node_id for node_id in valid_node_ids or () if isinstance(node_id, str)]
    checks = _Checks(findings, ids, frozenset(ids), words.get_finder(ORGANIZER_PHRASES))
    for key in ARRAYS:
        if not isinstance(report.get(key), list):
            findings.error("ORGANIZER_ARRAY_REQUIRED", f"/{key}", "is required (array)")
    _check_summary(report.get("summary"), findings)
    checks.check_each(report, DECOMPOSITIONS, checks.check_decomposition)
    checks.check_each(report, GROUPINGS, checks.check_grouping)
    checks.check_each(report, RELATIONS, checks.check_relation)
    checks.check_wording(report)
    _advise_on_summary(report.get("summary"), findings)
    return findings.result()


class _Checks:
    """Checks of single proposals against one list of ids."""

    def __init__(
        self, findings: Findings, ids: Sequence[str], known_ids: frozenset[str], phrases: PhraseFinder
    ) -> None:
        self.findings = findings
        self.ids = ids
        self.known_ids = known_ids
        self.phrases = phrases

    def check_each(self, report: dict[str, Any], key: str, check: Callable[[str, dict[str, Any]], None]) -> None:
        proposals = report.get(key)
        if not isinstance(proposals, list):
            return
        for index, proposal in enumerate(proposals):
            if isinstance(proposal, dict):
                check(f"/{key}/{index}", proposal)
            else:
                self.findings.error("ELEMENT_NOT_OBJECT", f"/{key}/{index}", "must be an object")

    def check_decomposition(self, pointer: str, proposal: dict[str, Any]) -> None:
        self.check_node_id(pointer, "target_node_id", proposal)
        self.check_reason(pointer, proposal)
        children = proposal.get("suggested_children")
        if not isinstance(children, list):
            children = ()
        if len(children) < 2:
            self.findings.error(
                "ORGANIZER_CHILDREN_TOO_FEW", f"{pointer}/suggested_children", "must have at least 2 items"
            )
        for index, child in enumerate(children):
            if not isinstance(child, dict):
                self.findings.error("ELEMENT_NOT_OBJECT", f"{pointer}/suggested_children/{index}", "must be an object")
                continue
            for name in ("title", "context"):
                if is_blank(child.get(name)):
                    self.findings.error(
                        "ORGANIZER_CHILD_FIELD_BLANK", f"{pointer}/suggested_children/{index}/{name}", "is required"
                    )

    def check_grouping(self, pointer: str, proposal: dict[str, Any]) -> None:
        self.check_reason(pointer, proposal)
        node_ids = proposal.get("node_ids")
        if not isinstance(node_ids, list):
            self.findings.error("ORGANIZER_NODE_IDS_REQUIRED", f"{pointer}/node_ids", "is required (array)")
            return
        for index, node_id in enumerate(node_ids):
            if self.is_unknown(node_id):
                # The text names the array, as V-15 has it; the pointer names the element.
                text = display_text(node_id)
                message = (
                    f"{format_path(pointer)}.node_ids contains invalid id '{text}': node_ids '{text}' {_NOT_IN_LIST}"
                )
                self.findings.error_text("ORGANIZER_ID_UNKNOWN", f"{pointer}/node_ids/{index}", message, self.ids)

    def check_relation(self, pointer: str, proposal: dict[str, Any]) -> None:
        self.check_node_id(pointer, "from_node_id", proposal)
        self.check_node_id(pointer, "to_node_id", proposal)
        self.check_reason(pointer, proposal)

    def check_node_id(self, pointer: str, name: str, proposal: dict[str, Any]) -> None:
        node_id = proposal.get(name)
        if self.is_unknown(node_id):
            requirement = f"'{display_text(node_id)}' {_NOT_IN_LIST}"
            self.findings.error("ORGANIZER_ID_UNKNOWN", f"{pointer}/{name}", requirement, self.ids)

    def is_unknown(self, node_id: object) -> bool:
        # A blank id is wrong even where the list holds one (V-76).
        return not isinstance(node_id, str) or node_id not in self.known_ids or not node_id.strip()

    def check_reason(self, pointer: str, proposal: dict[str, Any]) -> None:
        if is_blank(proposal.get("reason")):
            self.findings.error("ORGANIZER_REASON_BLANK", f"{pointer}/reason", "is required and non-empty")

    def check_wording(self, report: dict[str, Any]) -> None:
        summary = report.get("summary")
        if isinstance(summary, str) and self.phrases.occurs_in(summary):
            self.findings.error_text("ORGANIZER_PHRASE", "/summary", f"summary or reason {_PHRASE_REQUIREMENT}")
        for key in ARRAYS:
            proposals = report.get(key)
            for index, proposal in enumerate(proposals if isinstance(proposals, list) else ()):
                reason = proposal.get("reason") if isinstance(proposal, dict) else None
                if isinstance(reason, str) and self.phrases.occurs_in(reason):
                    self.findings.error("ORGANIZER_PHRASE", f"/{key}/{index}/reason", _PHRASE_REQUIREMENT)


def _check_summary(summary: object, findings: Findings) -> None:
    if summary is None:
        findings.error("SUMMARY_REQUIRED", "/summary", "is required")
    elif is_blank(summary):
        findings.error("SUMMARY_BLANK", "/summary", "must be non-empty")


def _advise_on_summary(summary: object, findings: Findings) -> None:
    if isinstance(summary, str) and summary.strip() and "まず" not in summary:
        findings.warning("ORGANIZER_NEXT_STEP", "/summary", "summary could suggest next step (e.g. まず◯◯)")
