"""Reports, findings and runs as protobuf messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from chassis.json_texts import repair_surrogates
from chassis.server.messages import encode
from hansei.validator.v1 import report_pb2 as pb
from services.validator.domain.dashboard import Brief
from services.validator.domain.findings import Finding, ValidationResult
from services.validator.domain.runs import (
    MAX_REGENERATIONS,
    Attempt,
    Repair,
    ReportRun,
    RunOptions,
)
from services.validator.domain.wording import Wording
from services.validator.usecases.validate_report import parse_json


def decode_wording(value: pb.Wording.ValueType) -> Wording:
    """Return the wording mode of a request; the default is literal."""
    return Wording.LINGUISTIC if value == pb.WORDING_LINGUISTIC else Wording.LITERAL


def decode_options(options: pb.RunOptions) -> RunOptions:
    """Return the run options of a request, with the defaults of the contract."""
    regenerations = options.max_regenerations if options.HasField("max_regenerations") else MAX_REGENERATIONS
    repair = Repair.PARTIAL if options.repair == pb.REPAIR_PARTIAL else Repair.FULL
    return RunOptions(decode_wording(options.wording), repair, regenerations)


def decode_brief(brief: pb.DashboardBrief) -> Brief:
    """Return the inputs of a report. A dashboard that is no JSON counts as missing (V-33)."""
    try:
        dashboard = parse_json(brief.dashboard_json)
    except ValueError:
        dashboard = None
    return Brief(
        dashboard,
        brief.focus_node_id if brief.HasField("focus_node_id") else None,
        brief.user_intent if brief.HasField("user_intent") else None,
        tuple(brief.constraints),
    )


def _repair_all(values: Iterable[str]) -> list[str]:
    """Return texts that UTF-8 can encode."""
    return [repair_surrogates(value) for value in values]


def _encode_finding(finding: Finding) -> pb.Finding:
    """Return the message of a finding."""
    return encode(
        finding,
        pb.Finding,
        message=repair_surrogates(finding.message),
        pointer=repair_surrogates(finding.pointer),
        allowed_values=_repair_all(finding.allowed_values),
        other_pointers=_repair_all(finding.other_pointers),
    )


def encode_result(result: ValidationResult) -> pb.ValidationResult:
    """Return the message of a validation result."""
    return pb.ValidationResult(
        ok=result.ok,
        errors=_repair_all(result.errors),
        warnings=_repair_all(result.warnings),
        findings=[_encode_finding(finding) for finding in result.findings],
    )


def encode_run(run: ReportRun) -> pb.ReportRun:
    """Return the message of a run."""
    best = run.best_attempt
    return encode(
        run,
        pb.ReportRun,
        report_json=_encode_report(run.report),
        errors=_repair_all(run.errors),
        warnings=_repair_all(run.warnings),
        rendered=None if run.rendered is None else repair_surrogates(run.rendered),
        attempts=[_encode_attempt(attempt) for attempt in run.attempts],
        best_attempt=None if best is None else best.number,
    )


def _encode_attempt(attempt: Attempt) -> pb.Attempt:
    return encode(
        attempt,
        pb.Attempt,
        report_json=_encode_report(attempt.report),
        findings=[_encode_finding(finding) for finding in attempt.result.findings],
        failure=repair_surrogates(attempt.failure),
        prompt_bytes=len(attempt.prompt.encode("utf-8", "replace")),
        answer_bytes=len(attempt.answer.encode("utf-8", "replace")),
    )


def _encode_report(report: Mapping[str, Any] | None) -> str:
    return "" if report is None else repair_surrogates(json.dumps(report, ensure_ascii=False))
