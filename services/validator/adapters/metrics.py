"""Metrics of runs: violations and fixes by rule, tokens, outcomes."""

from __future__ import annotations

from opentelemetry.metrics import Meter

from chassis import telemetry
from services.validator.domain.kinds import ReportKind
from services.validator.domain.runs import ReportRun, list_fixed_findings


class RunMetrics:
    """Counts finished runs."""

    def __init__(self, meter: Meter = telemetry.meter) -> None:
        self._violations = meter.create_counter(
            "hansei.validator.violations",
            unit="{finding}",
            description="Errors found in generated reports, by kind and rule.",
        )
        self._fixes = meter.create_counter(
            "hansei.validator.fixes",
            unit="{finding}",
            description="Errors that a regeneration removed, by kind, rule and number of the attempt (1 or 2).",
        )
        self._tokens = meter.create_counter(
            "hansei.validator.tokens", unit="{token}", description="Tokens of generated reports, by kind and direction."
        )
        self._runs = meter.create_counter(
            "hansei.validator.runs", unit="{run}", description="Finished report runs, by kind and stop reason."
        )

    def run_ended(self, kind: ReportKind, run: ReportRun) -> None:
        """Count one run."""
        for attempt in run.attempts:
            for finding in attempt.result.error_findings:
                self._violations.add(1, {"kind": kind.name, "rule": finding.code})
        for finding, number in list_fixed_findings(run):
            self._fixes.add(1, {"kind": kind.name, "rule": finding.code, "attempt": number})
        self._tokens.add(run.usage.input_tokens, {"kind": kind.name, "direction": "input"})
        self._tokens.add(run.usage.output_tokens, {"kind": kind.name, "direction": "output"})
        self._runs.add(1, {"kind": kind.name, "end": run.stop_reason.value})
