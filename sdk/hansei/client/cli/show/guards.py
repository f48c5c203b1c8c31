"""Guards, and backtests of targets."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.show.words import BAD, FAINT, count_noun, format_enum_name, keep_ids_whole, make_score_table

if TYPE_CHECKING:
    from hansei.evidence.v1.guard_service_pb2 import (
        Guard,
        GuardModeDecision,
        StoreBacktestResponse,
        UndoGuardDecisionResponse,
    )

MAX_LISTED_FIRINGS = 20


def render_table(guards: Sequence[Guard]) -> RenderableType:
    """Show guards, one a line, each with its target below."""
    from hansei.playbook.v1.playbook_pb2 import TargetMode

    table = make_score_table("bullet", "mode", "firings", "withheld")
    for guard in guards:
        mode = format_enum_name(TargetMode, guard.target.mode)
        if guard.requested_mode > guard.target.mode:
            mode += f" ({format_enum_name(TargetMode, guard.requested_mode)} needs a backtest or a pin)"
        if guard.target.pinned:
            mode += ", pinned"
        if guard.suspended:
            mode += ", suspended: its target takes too many steps"
        table.add_row(guard.bullet_id, mode, str(guard.firings), str(guard.withheld))
    lines = (Text(f"{guard.bullet_id}: {guard.target.expression}", FAINT) for guard in guards)
    return Group(keep_ids_whole(table), *lines)


def render_decisions(decisions: Sequence[GuardModeDecision]) -> RenderableType:
    """Show changes of modes, one a line, each with its reason below."""
    lines = []
    for decision in decisions:
        undone = " (undone)" if decision.undone else ""
        lines += [
            Text(f"{decision.number}  {_describe_change(decision)}{undone}"),
            Text(f"   {decision.reason}", FAINT),
        ]
    return Group(*lines)


def render_undone(response: UndoGuardDecisionResponse) -> RenderableType:
    """Show the change that took a decision back."""
    return Text(_describe_change(response.decision))


def _describe_change(decision: GuardModeDecision) -> str:
    from hansei.playbook.v1.playbook_pb2 import TargetMode

    before, after = (format_enum_name(TargetMode, mode) for mode in (decision.before, decision.after))
    where = f"in revision {decision.revision}" if decision.revision else "not in the playbook"
    return f"{decision.bullet_id}: {before} to {after}, {where}"


def render_stored_backtest(response: StoreBacktestResponse) -> RenderableType:
    """Show the counts of a stored backtest, and the highest mode that it allows."""
    from hansei.playbook.v1.playbook_pb2 import TargetMode

    result = response.backtest
    failing = f"{result.failed_with_firing} of {result.failed_trajectories} failing"
    passing = f"{result.passed_with_firing} of {result.passed_trajectories} passing"
    return Text(
        f"fires in {failing} and {passing} trajectories, of which {count_noun(result.false_alarms, 'false alarm')};"
        f" upper bound of the false alarms: {result.false_alarm_bound:.3f} (95 %);"
        f" highest mode without a pin: {format_enum_name(TargetMode, response.highest_mode)}"
    )


def render_written_targets(result: Mapping[str, Any]) -> RenderableType:
    """Show the targets that a model wrote, each with its lesson and its backtest, and those that were refused."""
    table = make_score_table("target", "failing", "false alarms", "bound")
    for item in result["targets"]:
        table.add_row(
            f"{item['target']}\n{item['lesson']}",
            f"{item['failed_firing']} of {item['failed']}",
            f"{item['false_alarms']} of {item['passed']}",
            f"{item['false_alarm_bound']:.3f}",
        )
    failures = [
        *(f"refused, {_name_origin(item)}: {item['target']}: {item['rule']}" for item in result["refused"]),
        *(f"no reply, {_name_origin(item)}: {item['error']}" for item in result["unanswered"]),
    ]
    notes = [f"{result['model']}, {result['input_tokens'] or 0} + {result['output_tokens'] or 0} tokens"]
    if result.get("skipped"):
        notes.append(f"not read, beyond --limit: {count_noun(result['skipped'], 'failed trajectory')}")
    return Group(table, *(Text(line, BAD) for line in failures), *(Text(note, FAINT) for note in notes))


def _name_origin(item: Mapping[str, Any]) -> str:
    return str(item.get("task") or item["domain"] or "all")


def render_backtest(result: Mapping[str, Any], archive: str = "") -> RenderableType:
    """Show the counts of a backtest and its firings; those in an archived trajectory can be opened."""
    table = make_score_table("trajectories", "with a firing", "of")
    table.add_row("failing", str(result["failed_firing"]), str(result["failed"]))
    table.add_row("passing", str(result["passed_firing"]), str(result["passed"]))
    alarms = f"false alarms, passing trajectories with a firing at a call that did not fail: {result['false_alarms']}"
    notes = [f"{alarms}; upper bound: {result['false_alarm_bound']:.3f} (95 %)"]
    if result.get("skipped"):
        notes.append(f"left out, as only the agent says how it ended: {count_noun(result['skipped'], 'trajectory')}")
    return Group(table, *(Text(note, FAINT) for note in notes), *_list_firings(result["firings"], archive))


def render_mined(report: Mapping[str, Any], dataset: str) -> RenderableType:
    """Show mined guards, each with its lesson, its backtest and the steps of its firings."""
    searched = (
        f"{report['trajectories']} trajectories with an outcome, {report['failed_trajectories']} failed;"
        f" {report['predicates_tried']} predicates tried, {report['tests_counted']} tests counted"
    )
    if not report["guards"]:
        return Group(Text("No guard stands the tests."), Text(searched, FAINT))
    parts: list[RenderableType] = [Text(searched, FAINT)]
    for guard in report["guards"]:
        parts.append(Text(f"\n{guard['target']}"))
        if "bullet_id" in guard:
            added = "added in SHADOW as" if guard["added"] else "is already the target of"
            parts.append(Text(f"{added} {guard['bullet_id']}"))
        parts.append(Text(f"p {guard['p_value']:.1g}, {guard['kind']}", FAINT))
        parts.append(render_backtest(guard["backtest"], dataset))
    return Group(*parts)


def _list_firings(firings: Sequence[Mapping[str, Any]], archive: str) -> list[Text]:
    lines = []
    for firing in firings[:MAX_LISTED_FIRINGS]:
        is_alarm = firing["is_success"] and not firing["is_mistake"]
        label = "false alarm" if is_alarm else "repaired" if firing["is_success"] else "failing"
        lines.append(Text(f"{label}: {_name_step(firing, archive)}", BAD if is_alarm else ""))
    if len(firings) > MAX_LISTED_FIRINGS:
        lines.append(Text(f"and {count_noun(len(firings) - MAX_LISTED_FIRINGS, 'more firing')}", FAINT))
    return lines


def _name_step(firing: Mapping[str, Any], archive: str) -> str:
    """Return the command that shows the step of a firing, or without an archive its trajectory and number."""
    trajectory_id, step = firing["trajectory_id"], firing["step"]
    if not archive:
        return f"{trajectory_id}, step {step}"
    return f"hansei trajectories show {shlex.quote(trajectory_id)} --dataset {archive} --step {step}"
