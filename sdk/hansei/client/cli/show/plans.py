"""Plans, executions and their events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.options import Exit
from hansei.client.cli.show.words import (
    BAD,
    CHANGED,
    FAINT,
    GOOD,
    ID,
    count_noun,
    format_enum_name,
    format_time,
    format_usage,
    label_row,
    put_on_one_line,
)
from hansei.planner.v1 import planner_pb2 as pb

if TYPE_CHECKING:
    from hansei.planner.v1.planner_service_pb2 import (
        AddInformationResponse,
        ExecutionSummary,
        GetThresholdsResponse,
        SubmitFeedbackResponse,
    )
    from hansei.playbook.v1.usage_pb2 import ModelUsage

STATUS_STYLE = {
    pb.EXECUTION_STATUS_SUCCESS: GOOD,
    pb.EXECUTION_STATUS_PARTIAL: CHANGED,
    pb.EXECUTION_STATUS_PAUSED: CHANGED,
    pb.EXECUTION_STATUS_FAILED: BAD,
    pb.EXECUTION_STATUS_CANCELLED: BAD,
}


def render_made_plan(content: pb.Plan, template_reason: str, usage: ModelUsage) -> RenderableType:
    """Show a plan, and the usage of making it."""
    return Group(render_plan(content, template_reason), Text(format_usage(usage), FAINT))


def render_plan(content: pb.Plan, template_reason: str = "") -> RenderableType:
    """Show the steps of a plan in order, with their dependencies."""
    title = Text(put_on_one_line(content.original_query), "bold")
    title.append(f"  {content.plan_id}  complexity {content.complexity:.2f}", FAINT)
    if template_reason:
        title.append(f"  template: {template_reason}", FAINT)
    return Group(title, *(_render_step(step) for step in content.steps))


def _render_step(step: pb.PlanStep) -> RenderableType:
    body = Text.assemble((_format_action(step.action), "bold"), f"  {put_on_one_line(step.description)}")
    if step.depends_on:
        body.append(f"  after {', '.join(map(str, step.depends_on))}", FAINT)
    if step.fallback:
        body.append(f"  else {_format_action(step.fallback)}", FAINT)
    return label_row(f"{step.step_id}", body, width=3)


def _format_action(action: pb.Action.ValueType) -> str:
    return format_enum_name(pb.Action, action)


def render_execution_status(execution: pb.Execution) -> Text:
    """Show the status of an execution."""
    return _render_status(execution.status)


def _render_status(status: pb.ExecutionStatus.ValueType) -> Text:
    return Text(format_enum_name(pb.ExecutionStatus, status), STATUS_STYLE.get(status, FAINT))


def render_summary(execution: ExecutionSummary) -> Text:
    """Show an execution on one line."""
    query = put_on_one_line(execution.original_query, 80)
    line = Text.assemble((execution.execution_id, ID), "  ", _render_status(execution.status), f"  {query}")
    return line.append(f"  {format_time(execution.start_time)}", FAINT)


def render_event(content: pb.ExecutionEvent) -> RenderableType:
    """Show an event on one line; a plan, a question and a result on several."""
    return Group(*_render_event_lines(content))


def _render_event_lines(event: pb.ExecutionEvent) -> Iterator[RenderableType]:
    match event.WhichOneof("event"):
        case "started":
            yield Text.assemble(("execution ", FAINT), (event.execution_id, ID))
            yield render_plan(event.started.plan)
        case "step_started":
            step = event.step_started
            attempt = f", attempt {step.attempt}" if step.attempt > 1 else ""
            yield Text.assemble(("▷ ", FAINT), f"step {step.step_id}: {_format_action(step.action)}{attempt}")
        case "step_finished":
            yield from _render_step_result(event.step_finished.result)
        case "step_skipped":
            yield Text(f"· step {event.step_skipped.step_id} skipped: {event.step_skipped.reason}", FAINT)
        case "intervention_requested":
            yield from _render_question(event.execution_id, event.intervention_requested)
        case "replanned":
            change = "replanned" if event.replanned.success else "not replanned"
            yield Text(f"↻ {change}: {event.replanned.reason}", CHANGED)
        case "log":
            yield Text(f"  {event.log.message}", FAINT)
        case "step_in_doubt":
            yield Text(f"? step {event.step_in_doubt.step_id}: its effect is unknown", CHANGED)
        case "cancel_requested":
            yield Text(f"✗ cancelled: {event.cancel_requested.reason}", BAD)
        case "finished":
            yield from _render_result(event.finished)


def _render_step_result(result: pb.StepResult) -> Iterator[RenderableType]:
    mark = ("✗ ", BAD) if result.status == pb.STEP_STATUS_FAILED else ("✓ ", GOOD)
    yield Text.assemble(mark, f"step {result.step_id}, confidence {result.confidence:.2f}")
    if result.searched_collections:
        yield label_row("", f"searched {', '.join(result.searched_collections)}", width=1)
    if result.error or result.output:
        yield label_row("", put_on_one_line(result.error or result.output, 400), width=1)


def _render_question(execution_id: str, request: pb.InterventionRequest) -> Iterator[RenderableType]:
    yield Text(request.question or request.message, CHANGED)
    if request.HasField("question"):
        yield label_row("", put_on_one_line(request.message), width=1)
    for option in request.options:
        yield label_row("·", option, width=1)
    actions = "proceed|retry|skip|remove|modify|cancel" if request.HasField("step_id") else "proceed|modify|cancel"
    yield Text(f"answer it with: hansei plan answer {execution_id} ANSWER", FAINT)
    yield Text(f"or with --action {actions}, --edit, --plan FILE", FAINT)


def _render_result(result: pb.ExecutionResult) -> Iterator[RenderableType]:
    line = _render_status(result.overall_status)
    line.append(f"  confidence {result.overall_confidence:.2f}", FAINT)
    if result.replan_count:
        line.append(f", {result.replan_count} replans", FAINT)
    if result.has_critical_step:
        line.append(f", with a critical step {result.checked_confidence:.2f}", CHANGED)
    yield line
    if result.reason:
        yield Text(result.reason, BAD)
    if result.HasField("final_answer"):
        yield Text(result.final_answer)


def render_information(response: AddInformationResponse, execution_id: str) -> Text:
    """Show that information was added to an execution."""
    line = Text(f"added as event {response.sequence}; the execution plans again before its next step")
    return line.append(f"\nfollow it with: hansei plan watch {execution_id} --after {response.sequence}", FAINT)


def render_feedback(response: SubmitFeedbackResponse) -> Text:
    """Show the effect of feedback on the thresholds."""
    effect = "thresholds moved" if response.adjusted else "thresholds unchanged"
    return Text(f"recorded as report {response.records}; {effect}").append(
        _format_thresholds(response.thresholds), FAINT
    )


def render_thresholds(response: GetThresholdsResponse) -> Text:
    """Show the thresholds, how they are found, and the evidence about each tool."""
    line = Text(f"{response.mode}, {count_noun(response.records, 'report')}")
    line.append(_format_thresholds(response.thresholds)).append(
        f"; configured{_format_thresholds(response.configured)}", FAINT
    )
    for evidence in response.tools:
        line.append("\n").append(_format_evidence(evidence))
    return line


def _format_evidence(evidence: pb.ToolEvidence) -> str:
    """Describe the thresholds of a tool and the labels that prove them."""
    proven = "no threshold proven"
    if evidence.HasField("proven_threshold"):
        proven = f"proven above {evidence.proven_threshold:.2f}"
    labels = f"{evidence.labelled} of {evidence.selected} selected steps labelled"
    open_labels = f"{evidence.waiting} waiting, {evidence.missing} missing"
    revocations = count_noun(evidence.revocations, "revocation")
    return f"  {evidence.tool}: {proven}; {labels}, {open_labels}; {revocations}"


def _format_thresholds(now: pb.Thresholds) -> str:
    return f"  silent {now.silent:.2f}, notify {now.notify:.2f}, confirm {now.confirm:.2f}"


def choose_exit_code(last: pb.ExecutionEvent | None) -> Exit:
    """Return the exit code for the last event: done, failed, or waiting for an answer."""
    if last is None or last.WhichOneof("event") != "finished":
        return Exit.PARTLY
    successes = (pb.EXECUTION_STATUS_SUCCESS, pb.EXECUTION_STATUS_PARTIAL)
    return Exit.DONE if last.finished.overall_status in successes else Exit.FAILED
