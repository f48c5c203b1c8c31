"""Plans, and the events of their executions."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.options import Exit
from hansei.client.cli.show.words import BAD, CHANGED, FAINT, GOOD, ID, hanging, one_line, time_of
from hansei.planner.v1 import planner_pb2 as pb
from hansei.planner.v1.planner_service_pb2 import ExecutionSummary

STATUS_STYLE = {
    pb.EXECUTION_STATUS_SUCCESS: GOOD,
    pb.EXECUTION_STATUS_PARTIAL: CHANGED,
    pb.EXECUTION_STATUS_PAUSED: CHANGED,
    pb.EXECUTION_STATUS_FAILED: BAD,
    pb.EXECUTION_STATUS_CANCELLED: BAD,
}


def plan(made: pb.Plan, template_reason: str = "") -> RenderableType:
    """A plan's steps in order, with what each needs."""
    title = Text(one_line(made.original_query), "bold")
    title.append(f"  {made.plan_id}  complexity {made.complexity:.2f}", FAINT)
    if template_reason:
        title.append(f"  template: {template_reason}", FAINT)
    return Group(title, *(_step(step) for step in made.steps))


def _step(step: pb.PlanStep) -> RenderableType:
    body = Text.assemble((_action(step.action), "bold"), f"  {one_line(step.description)}")
    if step.depends_on:
        body.append(f"  after {', '.join(map(str, step.depends_on))}", FAINT)
    if step.fallback:
        body.append(f"  else {_action(step.fallback)}", FAINT)
    return hanging(f"{step.step_id}", body, width=3)


def _action(action: pb.Action.ValueType) -> str:
    return pb.Action.Name(action).removeprefix("ACTION_").lower()


def status(value: pb.ExecutionStatus.ValueType) -> Text:
    """Where an execution is, or how it ended."""
    name = pb.ExecutionStatus.Name(value).removeprefix("EXECUTION_STATUS_").lower()
    return Text.assemble((name, STATUS_STYLE.get(value, FAINT)))


def summary(found: ExecutionSummary) -> Text:
    """An execution on one line."""
    line = Text.assemble(
        (found.execution_id, ID), "  ", status(found.status), f"  {one_line(found.original_query, 80)}"
    )
    return line.append(f"  {time_of(found.start_time)}", FAINT)


def event(happened: pb.ExecutionEvent) -> RenderableType:
    """One event on one line; a plan, a question and a result on several."""
    return Group(*_event(happened))


def _event(happened: pb.ExecutionEvent) -> Iterator[RenderableType]:
    match happened.WhichOneof("event"):
        case "started":
            yield Text.assemble(("execution ", FAINT), (happened.execution_id, ID))
            yield plan(happened.started.plan)
        case "step_started":
            at = happened.step_started
            attempt = f", attempt {at.attempt}" if at.attempt > 1 else ""
            yield Text.assemble(("▷ ", FAINT), f"step {at.step_id}: {_action(at.action)}{attempt}")
        case "step_finished":
            yield from _finished(happened.step_finished)
        case "step_skipped":
            yield Text(f"· step {happened.step_skipped.step_id} skipped: {happened.step_skipped.reason}", FAINT)
        case "intervention_requested":
            yield from _question(happened.execution_id, happened.intervention_requested)
        case "replanned":
            done = "replanned" if happened.replanned.success else "not replanned"
            yield Text(f"↻ {done}: {happened.replanned.reason}", CHANGED)
        case "log":
            yield Text(f"  {happened.log.message}", FAINT)
        case "step_in_doubt":
            yield Text(f"? step {happened.step_in_doubt.step_id}: its effect is not known", CHANGED)
        case "cancel_requested":
            yield Text(f"✗ cancelled: {happened.cancel_requested.reason}", BAD)
        case "finished":
            yield from _result(happened.finished)


def _finished(finished: pb.StepFinished) -> Iterator[RenderableType]:
    result = finished.result
    failed = result.status == pb.STEP_STATUS_FAILED
    mark = ("✗ ", BAD) if failed else ("✓ ", GOOD)
    yield Text.assemble(mark, f"step {result.step_id}, confidence {result.confidence:.2f}")
    if result.error or result.output:
        yield hanging("", one_line(result.error or result.output, 400), width=1)


def _question(execution_id: str, asked: pb.InterventionRequest) -> Iterator[RenderableType]:
    yield Text(asked.question or asked.message, CHANGED)
    if asked.HasField("question"):
        yield hanging("", one_line(asked.message), width=1)
    for option in asked.options:
        yield hanging("·", option, width=1)
    yield Text(f"answer it with: hansei plan answer {execution_id} ANSWER", FAINT)


def _result(result: pb.ExecutionResult) -> Iterator[RenderableType]:
    line = status(result.overall_status)
    line.append(f"  confidence {result.overall_confidence:.2f}", FAINT)
    if result.replan_count:
        line.append(f", {result.replan_count} replans", FAINT)
    yield line
    if result.HasField("final_answer"):
        yield Text(result.final_answer)


def exit_code(last: pb.ExecutionEvent | None) -> Exit:
    """How the last event leaves the execution: done, failed, or waiting for an answer."""
    if last is None or last.WhichOneof("event") != "finished":
        return Exit.PARTLY
    ended_well = (pb.EXECUTION_STATUS_SUCCESS, pb.EXECUTION_STATUS_PARTIAL)
    return Exit.DONE if last.finished.overall_status in ended_well else Exit.FAILED
