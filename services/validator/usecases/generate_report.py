"""Generates a report, checks it, and has the model correct it: at most two regenerations (spec section 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from chassis.errors import DeadlineExceeded, FailedPrecondition
from chassis.logging import get_logger
from libs.llm.errors import ModelOffline, ReplyNotStructured
from libs.llm.replies import extract_json_object
from libs.prompts.language import Language
from services.validator.domain.dashboard import Node
from services.validator.domain.findings import NOTHING_FOUND, ValidationResult
from services.validator.domain.kinds import ReportKind
from services.validator.domain.quoting import escape_to_line
from services.validator.domain.repairs import apply_repairs, find_broken_parts
from services.validator.domain.runs import Attempt, Repair, ReportRun, RunOptions, StopReason, TokenUsage, refuse_run
from services.validator.domain.wording import PhraseFinders
from services.validator.prompts.reports import build_correction_prompt, build_regeneration_prompt, build_repair_prompt
from services.validator.usecases.ports import ReportModel, RunObserver
from services.validator.usecases.validate_report import run_check

log = get_logger("hansei.validator")


@dataclass(frozen=True, slots=True)
class Assignment:
    """The input of a run: the kind, its base prompt, the ids that a report may use and the nodes of these ids.

    ``language`` is that of the base prompt.
    """

    kind: ReportKind
    base_prompt: str
    valid_node_ids: Sequence[str]
    nodes: Sequence[Node]
    words: PhraseFinders
    language: Language = "ja"


async def generate_report(
    assignment: Assignment, model: ReportModel, options: RunOptions, observer: RunObserver | None = None
) -> ReportRun:
    """Run the loop of V-38 to V-45; offline it ends at once with `StopReason.MODEL_OFFLINE`.

    Raises the errors of `ReportModel.answer` for a model that cannot be called.
    """
    try:
        return await _run_attempts(assignment, model, options, observer)
    except ModelOffline as error:
        return refuse_run(str(error), StopReason.MODEL_OFFLINE)


async def _run_attempts(
    assignment: Assignment, model: ReportModel, options: RunOptions, observer: RunObserver | None
) -> ReportRun:
    attempts: list[Attempt] = []
    stop = StopReason.ATTEMPTS_EXHAUSTED
    for number in range(1 + options.max_regenerations):
        attempt = await _make_attempt(assignment, model, _build_next_request(assignment, attempts, number, options))
        attempts.append(attempt)
        _log_attempt(assignment.kind, attempt)
        if attempt.ok:
            stop = StopReason.VALID
            break
        if _has_same_faults(attempts):
            stop = StopReason.REPEATED_FAULTS
            break
    run = _build_outcome(assignment.kind, attempts, stop)
    # The specification counts every record it names as one of WARNING or above (README, "Logged").
    event = f"[{assignment.kind.name}] final retryCount={run.retry_count} ok={_lower(run.ok)}"
    log.warning(event)
    if observer is not None:
        observer.run_ended(assignment.kind, run)
    return run


@dataclass(frozen=True, slots=True)
class _Request:
    """One call to make: a whole report when `parts` is empty, else those parts of `report`."""

    number: int
    prompt: str
    report: Mapping[str, Any] | None = None
    parts: Mapping[str, Sequence[str]] | None = None


def _build_next_request(
    assignment: Assignment, attempts: Sequence[Attempt], number: int, options: RunOptions
) -> _Request:
    # A failed call gives no information about the report, so the prompt contains the latest answer instead.
    answered = next((attempt for attempt in reversed(attempts) if attempt.answer), None)
    if answered is None:
        return _Request(number, assignment.base_prompt)
    latest = next((attempt for attempt in reversed(attempts) if attempt.report is not None), None)
    if options.repair is Repair.PARTIAL and latest is not None and latest.report is not None:
        findings = latest.result.error_findings
        parts = find_broken_parts(latest.report, findings)
        if parts:
            nodes = assignment.nodes if any(finding.allowed_values_total for finding in findings) else ()
            ids = assignment.valid_node_ids if nodes else ()
            prompt = build_repair_prompt(assignment.kind, latest.report, parts, ids, nodes, assignment.language)
            return _Request(number, prompt, latest.report, parts)
    correction = build_correction_prompt(answered.errors, assignment.valid_node_ids, assignment.language)
    prompt = build_regeneration_prompt(
        assignment.base_prompt, correction, _restore_answer(answered), assignment.language
    )
    return _Request(number, prompt)


def _restore_answer(attempt: Attempt) -> str:
    """Return the answer to correct; after a partial repair this is the whole report."""
    if attempt.repair is Repair.FULL or attempt.report is None:
        return attempt.answer
    return json.dumps(attempt.report, ensure_ascii=False)


async def _make_attempt(assignment: Assignment, model: ReportModel, request: _Request) -> Attempt:
    repair = Repair.PARTIAL if request.parts else Repair.FULL
    attempt = Attempt(request.number, repair, request.prompt, usage=TokenUsage.of_call(None, None))
    try:
        answer = await model.answer(request.prompt)
    except (FailedPrecondition, DeadlineExceeded):
        raise
    except Exception as error:  # V-40: any failure of the call costs this attempt
        return replace(attempt, failure=str(error) or type(error).__name__)
    usage = TokenUsage.of_call(answer.input_tokens, answer.output_tokens)
    attempt = replace(attempt, answer=answer.text, usage=usage)
    check = partial(_check_answer, assignment, request, answer.text)
    report, result = await run_check(check, assignment.kind, assignment.words, len(answer.text))
    if report is None:
        return replace(attempt, failure=f"Failed to parse {assignment.kind.title} from LLM response")
    return replace(attempt, report=report, result=result)


def _check_answer(
    assignment: Assignment, request: _Request, text: str
) -> tuple[Mapping[str, Any] | None, ValidationResult]:
    """Return the report of an answer and the findings on it; None for an answer without a report."""
    report = _extract_report(text, request)
    if report is None:
        return None, NOTHING_FOUND
    return report, assignment.kind.validate(report, assignment.valid_node_ids, assignment.words)


def _extract_report(text: str, request: _Request) -> Mapping[str, Any] | None:
    try:
        answer = extract_json_object(text)
    except ReplyNotStructured:
        return None
    if request.report is None or request.parts is None:
        return answer
    return apply_repairs(request.report, request.parts, answer)


def _has_same_faults(attempts: Sequence[Attempt]) -> bool:
    if len(attempts) < 2 or attempts[-1].report is None or attempts[-2].report is None:
        return False
    return set(attempts[-1].result.error_findings) == set(attempts[-2].result.error_findings)


def _build_outcome(kind: ReportKind, attempts: Sequence[Attempt], stop: StopReason) -> ReportRun:
    last = attempts[-1]
    report = next((attempt.report for attempt in reversed(attempts) if attempt.report is not None), None)
    return ReportRun(
        ok=last.ok,
        report=report,
        errors=tuple(last.errors),
        warnings=tuple(last.result.warnings),
        stop_reason=stop,
        rendered=kind.render(report) if last.ok and report is not None else None,
        attempts=tuple(attempts),
    )


def _log_attempt(kind: ReportKind, attempt: Attempt) -> None:
    texts = json.dumps({"errors": attempt.errors, "warnings": attempt.result.warnings}, ensure_ascii=False)
    state = f"attempt={attempt.number} errors={len(attempt.errors)} ok={_lower(attempt.ok)}"
    event = f"[{kind.name}] {state} {escape_to_line(texts)}"
    log.warning(event)


def _lower(value: bool) -> str:
    return str(value).lower()
