"""Archived trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.show.words import (
    BAD,
    FAINT,
    GOOD,
    ID,
    STATUS,
    count_noun,
    format_cost,
    format_enum_name,
    format_time,
    label_row,
    put_on_one_line,
)
from hansei.reflector.v1 import trajectory_pb2

if TYPE_CHECKING:
    from hansei.evidence.v1.archive_pb2 import ArchivedTrajectory
    from hansei.evidence.v1.archive_service_pb2 import GetTrajectoryResponse
    from hansei.playbook.v1.playbook_pb2 import Bullet

QUERY_CHARS = 70
STEP_CHARS = 160
_ROLE_WIDTH = 16


def render_line(summary: ArchivedTrajectory) -> RenderableType:
    """Show an archived trajectory, or a tombstone, on one line."""
    line = Text.assemble((summary.trajectory_id, ID), "  ")
    if summary.HasField("deleted_at"):
        return line.append(f"deleted {format_time(summary.deleted_at)}", FAINT)
    line.append_text(STATUS[summary.status])
    line.append(f"  {format_time(summary.created_at)}  {count_noun(summary.steps, 'step')}", FAINT)
    line.append("".join(f"  {part}" for part in _sum_usage(summary)), FAINT)
    if summary.errors:
        line.append(f"  {count_noun(len(summary.errors), 'tool error')}", BAD)
    if summary.learned_bullet_ids:
        line.append(f"  {count_noun(len(summary.learned_bullet_ids), 'bullet')} learned", GOOD)
    return line.append(f"  {put_on_one_line(summary.query, QUERY_CHARS)}")


def render_trajectory(archived: GetTrajectoryResponse, step: int | None = None) -> RenderableType:
    """Show a trajectory with shortened steps, or one step of it."""
    trajectory = archived.trajectory
    if step is not None:
        return _render_step(trajectory, step)
    return Group(
        Text.assemble((trajectory.id, ID), "  ", STATUS[trajectory.status]),
        *_list_facts(archived),
        Text(),
        *(_render_step_line(number, step) for number, step in enumerate(_list_steps(trajectory))),
    )


def _sum_usage(summary: ArchivedTrajectory) -> Iterator[str]:
    """Yield the sum of the tokens, and the cost, as far as they are known."""
    usage = summary.usage
    if usage.HasField("input_tokens") or usage.HasField("output_tokens"):
        yield f"{usage.input_tokens + usage.output_tokens:,} tokens"
    if usage.HasField("cost_usd"):
        yield format_cost(usage.cost_usd)


def _list_usage(summary: ArchivedTrajectory) -> list[str]:
    """Return the tokens and the cost of the model calls, as far as they are known."""
    usage = summary.usage
    parts = []
    if usage.HasField("input_tokens"):
        cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
        parts.append(f"{usage.input_tokens:,} tokens sent{cached}")
    if usage.HasField("output_tokens"):
        parts.append(f"{usage.output_tokens:,} tokens received")
    if usage.HasField("cost_usd"):
        parts.append(format_cost(usage.cost_usd))
    return parts


def _list_facts(archived: GetTrajectoryResponse) -> Iterator[RenderableType]:
    summary, trajectory = archived.summary, archived.trajectory
    yield label_row("query", put_on_one_line(trajectory.query, 3 * STEP_CHARS))
    yield label_row("ran", format_time(summary.created_at))
    if usage := _list_usage(summary):
        yield label_row("usage", ", ".join(usage))
    for label, values in (
        ("agents", summary.agents),
        ("tools", summary.tools),
        ("served", summary.served_bullet_ids),
        ("cited", summary.cited_bullet_ids),
        ("learned", summary.learned_bullet_ids),
        ("servings", summary.serving_ids),
    ):
        if values:
            yield label_row(label, ", ".join(values))
    for error in summary.errors:
        yield label_row("error", Text.assemble((f"step {error.step}  ", FAINT), f"{error.operation}: {error.message}"))
    for label, text in (
        ("answer", trajectory.generated_answer),
        ("failed", trajectory.error_message),
        ("truth", archived.ground_truth),
        ("test", archived.test_report),
    ):
        if text:
            yield label_row(label, put_on_one_line(text, STEP_CHARS))


def _list_steps(trajectory: trajectory_pb2.Trajectory) -> Sequence[trajectory_pb2.Step]:
    """Return the steps, or else the reasoning steps as steps of the agent."""
    if trajectory.steps:
        return list(trajectory.steps)
    role = trajectory_pb2.STEP_ROLE_ASSISTANT
    return [trajectory_pb2.Step(role=role, content=text) for text in trajectory.reasoning_steps]


def _render_step_line(number: int, step: trajectory_pb2.Step) -> RenderableType:
    calls = [f"{call.name}({put_on_one_line(call.arguments, STEP_CHARS)})" for call in step.tool_calls]
    texts = [put_on_one_line(step.content, STEP_CHARS)] if step.content.strip() else []
    return label_row(Text.assemble((f"{number:>3} ", FAINT), _name_speaker(step)), "\n".join([*texts, *calls]), 0, 20)


def _render_step(trajectory: trajectory_pb2.Trajectory, number: int) -> RenderableType:
    steps = _list_steps(trajectory)
    step = steps[number]
    title = Text.assemble((trajectory.id, ID), f"  step {number} of 0 to {len(steps) - 1}  ", _name_speaker(step))
    if step.source:
        title.append(f"  {step.source}", FAINT)
    calls = [Text.assemble((f"{call.name}  ", GOOD), call.arguments) for call in step.tool_calls]
    return Group(title, *([Text(step.content)] if step.content else []), *calls)


def _name_speaker(step: trajectory_pb2.Step) -> str:
    role = format_enum_name(trajectory_pb2.StepRole, step.role)
    return put_on_one_line(step.name, _ROLE_WIDTH) if step.name else role


def render_export(result: Mapping[str, Any]) -> str:
    """Say how many trajectories a file has."""
    return f"{count_noun(result['trajectories'], 'trajectory')} in {result['file']}"


def render_deletions(result: Mapping[str, Any]) -> str:
    """Say how many trajectories were deleted."""
    return f"{count_noun(result['trajectories'], 'trajectory')} deleted from the archive of {result['dataset']}"


def render_comparison(result: Mapping[str, Any]) -> RenderableType:
    """Show the bullets that only one of two playbooks has."""
    dataset, new = result["dataset"], result["into"]
    return Group(
        Text(f"{count_noun(len(result['same']), 'bullet')} in both playbooks"),
        *_render_bullets(f"only in {dataset}", "-", BAD, result["only_in_dataset"]),
        *_render_bullets(f"only in {new}", "+", GOOD, result["only_in_new"]),
    )


def _render_bullets(title: str, sign: str, style: str, bullets: Sequence[Bullet]) -> Iterator[RenderableType]:
    if bullets:
        yield Text(f"{count_noun(len(bullets), 'bullet')} {title}", "bold")
    for bullet in bullets:
        yield label_row(
            Text(sign, style), Text.assemble((f"{bullet.id} ", ID), put_on_one_line(bullet.content)), width=1
        )
