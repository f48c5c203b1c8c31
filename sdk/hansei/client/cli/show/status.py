"""The overview of `hansei status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hansei.client.cli.show.words import (
    BAD,
    CHANGED,
    FAINT,
    GOOD,
    ID,
    count_noun,
    format_cost,
    format_percent,
    format_points,
    format_time,
    keep_ids_whole,
    round_points,
)

FIRST_STEPS = (
    "There is no playbook yet. Learn the recorded examples, or your own trajectories:",
    "  hansei learn examples/trajectories",
    "  hansei learn ~/.claude/projects --dataset coding",
)

_DATE = len("2026-11-25")


def render_status(overview: Mapping[str, Any]) -> RenderableType:
    """Show the health, a row for each dataset, and what waits."""
    problems = overview["problems"]
    health = Text("all services answer", GOOD) if not problems else Text("some services do not answer", BAD)
    lines: list[RenderableType] = [Text.assemble(("hansei", "bold"), f" at {overview['address']}: ", health)]
    lines += [Text(f"  {problem}", BAD) for problem in problems]
    if not overview["datasets"]:
        return Group(*lines, Text(), *(Text(line) for line in FIRST_STEPS))
    lines += [Text(), _render_table(overview["datasets"]), Text()]
    for row in [row for row in overview["datasets"] if row["lift"] is None][:1]:
        start = f"hansei trials start {row['dataset'].name}"
        lines.append(Text(f"The effect of a playbook is measured in trials: {start}", FAINT))
    return Group(*lines, *_render_waiting(overview["waiting"]))


def _render_table(rows: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style=FAINT)
    table.add_column("dataset", style=ID)
    for title in ("bullets", "trajectories"):
        table.add_column(title, justify="right", overflow="fold")
    for title in ("success (95 %)", "effect (95 %)", "tokens, cost", "changed"):
        table.add_column(title, overflow="fold")
    for row in rows:
        dataset, trajectories = row["dataset"], row["trajectories"]
        table.add_row(
            dataset.name,
            f"{dataset.bullets:,}",
            "–" if trajectories is None else f"{trajectories:,}",
            _format_success(row["success"]),
            _format_lift(row),
            _format_usage(row["usage"]),
            format_time(dataset.updated_at)[:_DATE] if dataset.HasField("updated_at") else "–",
        )
    return keep_ids_whole(table)


def _format_success(success: Any) -> str:
    if success is None:
        return "–"
    return f"{format_percent(success.share)} ({round_points(success.lower)} to {round_points(success.upper)})"


def _format_usage(usage: Any) -> str:
    """Return the tokens and the cost of agents: `1,200, $0.02`; a dash for what no trajectory states."""
    if usage is None:
        return "–"
    tokens = f"{usage.input_tokens + usage.output_tokens:,}" if usage.trajectories_with_tokens else "–"
    return f"{tokens}, {format_cost(usage.cost_usd)}" if usage.HasField("cost_usd") else tokens


def _format_lift(row: Mapping[str, Any]) -> Text:
    lift = row["lift"]
    if lift is None:
        return Text("not measured", FAINT)
    if not (lift.served.sessions and lift.withheld.sessions):
        return Text(f"{lift.served.sessions + lift.withheld.sessions} sessions so far", FAINT)
    style = GOOD if lift.lower > 0 else BAD if lift.upper < 0 else ""
    text = f"{format_points(lift.difference)} points ({format_points(lift.lower)} to {format_points(lift.upper)})"
    return Text(text if row["trials_running"] else f"{text}, trials stopped", style)


def _render_waiting(waiting: list[Mapping[str, Any]]) -> list[RenderableType]:
    if not waiting:
        return [Text("Nothing waits for you.", FAINT)]
    lines: list[RenderableType] = [Text("Waiting for you", "bold")]
    for item in waiting:
        lines.append(Text.assemble("  ", (count_noun(item["number"], item["kind"]), CHANGED), f": {item['show']}"))
    return lines
