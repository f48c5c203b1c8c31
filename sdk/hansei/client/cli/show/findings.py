"""The findings of a validated report."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.show.words import BAD, CHANGED, FAINT, GOOD, count_noun, format_enum_name, label_row
from hansei.validator.v1.report_pb2 import SEVERITY_ERROR, Finding, ReportRun, StopReason, ValidationResult


def render_validation(result: ValidationResult) -> RenderableType:
    """Show each finding with its place and the accepted values, and the verdict."""
    verdict = Text.assemble(("valid", GOOD) if result.ok else ("invalid", BAD))
    verdict.append(f"  {count_noun(len(result.errors), 'error')}, {count_noun(len(result.warnings), 'warning')}", FAINT)
    return Group(*(_render_finding(finding) for finding in result.findings), verdict)


def render_report_run(run: ReportRun) -> RenderableType:
    """Show the report as text, or why there is none, and the number of model calls."""
    usage = f"{count_noun(run.usage.calls, 'model call')}, {run.usage.input_tokens + run.usage.output_tokens} tokens"
    if run.ok:
        return Group(
            Text(run.rendered), *(Text(f"warning: {text}", CHANGED) for text in run.warnings), Text(usage, FAINT)
        )
    findings = run.attempts[-1].findings if run.attempts else ()
    failures = [Text(attempt.failure, BAD) for attempt in run.attempts[-1:] if attempt.failure]
    errors = [] if findings or failures else [Text(text, BAD) for text in run.errors]
    reason = format_enum_name(StopReason, run.stop_reason).replace("_", " ")
    verdict = Text.assemble(("no valid report", BAD), (f"  {reason}, {usage}", FAINT))
    return Group(*map(_render_finding, findings), *failures, *errors, verdict)


def _render_finding(finding: Finding) -> RenderableType:
    is_error = finding.severity == SEVERITY_ERROR
    body = Text(finding.message)
    body.append(f"\n{finding.code}", FAINT)
    if finding.pointer:
        body.append(f" at {finding.pointer}", FAINT)
    if finding.allowed_values:
        more = finding.allowed_values_total - len(finding.allowed_values)
        tail = f" and {more} more" if more > 0 else ""
        body.append(f"\naccepted: {', '.join(finding.allowed_values)}{tail}", FAINT)
    return label_row(Text("error", BAD) if is_error else Text("warning", CHANGED), body, indent=0)
