"""Reports, findings and runs as protobuf messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from hansei.validator.v1 import report_pb2 as pb
from services.validator.domain.dashboard import Brief
from services.validator.domain.findings import Finding, Severity, ValidationResult
from services.validator.domain.runs import (
    MAX_REGENERATIONS,
    Attempt,
    Repair,
    ReportRun,
    RunOptions,
    StopReason,
    TokenUsage,
)
from services.validator.domain.wording import Wording
from services.validator.usecases.validate_report import json_value

SEVERITIES = {Severity.ERROR: pb.SEVERITY_ERROR, Severity.WARNING: pb.SEVERITY_WARNING}
REPAIRS = {Repair.FULL: pb.REPAIR_FULL, Repair.PARTIAL: pb.REPAIR_PARTIAL}
STOP_REASONS = {
    StopReason.VALID: pb.STOP_REASON_VALID,
    StopReason.ATTEMPTS_EXHAUSTED: pb.STOP_REASON_ATTEMPTS_EXHAUSTED,
    StopReason.REPEATED_FAULTS: pb.STOP_REASON_REPEATED_FAULTS,
    StopReason.DASHBOARD_INVALID: pb.STOP_REASON_DASHBOARD_INVALID,
    StopReason.TARGET_UNKNOWN: pb.STOP_REASON_TARGET_UNKNOWN,
    StopReason.MODEL_OFFLINE: pb.STOP_REASON_MODEL_OFFLINE,
}


def wording_of(value: pb.Wording.ValueType) -> Wording:
    """The wording mode of a request; literal unless it says otherwise."""
    return Wording.LINGUISTIC if value == pb.WORDING_LINGUISTIC else Wording.LITERAL


def options_of(options: pb.RunOptions) -> RunOptions:
    """The run options of a request, with the defaults of the contract."""
    regenerations = options.max_regenerations if options.HasField("max_regenerations") else MAX_REGENERATIONS
    repair = Repair.PARTIAL if options.repair == pb.REPAIR_PARTIAL else Repair.FULL
    return RunOptions(wording_of(options.wording), repair, regenerations)


def brief_of(brief: pb.DashboardBrief) -> Brief:
    """What a report is made from. A dashboard that is no JSON is one that is missing (V-33)."""
    try:
        dashboard = json_value(brief.dashboard_json)
    except ValueError:
        dashboard = None
    return Brief(
        dashboard,
        brief.focus_node_id if brief.HasField("focus_node_id") else None,
        brief.user_intent if brief.HasField("user_intent") else None,
        tuple(brief.constraints),
    )


def text(value: str) -> str:
    """`value` as UTF-8 can hold it: JSON escapes may name half of a surrogate pair, which no encoding has."""
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def texts(values: Iterable[str]) -> list[str]:
    """Each value as UTF-8 can hold it."""
    return [text(value) for value in values]


def finding_message(finding: Finding) -> pb.Finding:
    """A finding on the wire."""
    return pb.Finding(
        code=finding.code,
        severity=SEVERITIES[finding.severity],
        message=text(finding.message),
        pointer=text(finding.pointer),
        allowed_values=texts(finding.allowed_values),
        allowed_values_total=finding.allowed_total,
        other_pointers=texts(finding.other_pointers),
    )


def result_message(result: ValidationResult) -> pb.ValidationResult:
    """A validation result on the wire."""
    return pb.ValidationResult(
        ok=result.ok,
        errors=texts(result.errors),
        warnings=texts(result.warnings),
        findings=[finding_message(finding) for finding in result.findings],
    )


def run_message(run: ReportRun) -> pb.ReportRun:
    """A run on the wire."""
    best = run.best_attempt
    return pb.ReportRun(
        ok=run.ok,
        report_json=_report_text(run.report),
        errors=texts(run.errors),
        warnings=texts(run.warnings),
        rendered=None if run.rendered is None else text(run.rendered),
        retry_count=run.retry_count,
        stop_reason=STOP_REASONS[run.stop_reason],
        attempts=[_attempt_message(attempt) for attempt in run.attempts],
        best_attempt=None if best is None else best.number,
        usage=_usage_message(run.usage),
    )


def _attempt_message(attempt: Attempt) -> pb.Attempt:
    return pb.Attempt(
        number=attempt.number,
        ok=attempt.ok,
        report_json=_report_text(attempt.report),
        findings=[finding_message(finding) for finding in attempt.result.findings],
        failure=text(attempt.failure),
        usage=_usage_message(attempt.usage),
        prompt_bytes=len(attempt.prompt.encode("utf-8", "replace")),
        answer_bytes=len(attempt.answer.encode("utf-8", "replace")),
        repair=REPAIRS[attempt.repair],
    )


def _usage_message(usage: TokenUsage) -> pb.TokenUsage:
    return pb.TokenUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        calls=usage.calls,
        calls_without_count=usage.calls_without_count,
    )


def _report_text(report: Mapping[str, Any] | None) -> str:
    return "" if report is None else text(json.dumps(report, ensure_ascii=False))
