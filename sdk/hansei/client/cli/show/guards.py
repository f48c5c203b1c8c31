"""Guards, and backtests of targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from hansei.client.cli.show.words import BAD, FAINT, count_noun, format_enum_name, make_score_table

if TYPE_CHECKING:
    from hansei.evidence.v1.guard_service_pb2 import Guard, StoreBacktestResponse

MAX_LISTED_RUNS = 20


def render_table(guards: Sequence[Guard]) -> RenderableType:
    """Show guards, one a line, each with its target below."""
    from hansei.playbook.v1.playbook_pb2 import TargetMode

    table = make_score_table("bullet", "mode", "firings", "withheld")
    for guard in guards:
        mode = format_enum_name(TargetMode, guard.target.mode)
        if guard.requested_mode > guard.target.mode:
            mode += f" ({format_enum_name(TargetMode, guard.requested_mode)} needs a backtest or a pin)"
        table.add_row(
            guard.bullet_id, f"{mode}, pinned" if guard.target.pinned else mode, str(guard.firings), str(guard.withheld)
        )
    lines = (Text(f"{guard.bullet_id}: {guard.target.expression}", FAINT) for guard in guards)
    return Group(table, *lines)


def render_stored_backtest(response: StoreBacktestResponse) -> RenderableType:
    """Show the counts of a stored backtest, and the highest mode that it allows."""
    from hansei.playbook.v1.playbook_pb2 import TargetMode

    result = response.backtest
    failing = f"{result.failed_with_firing} of {result.failed_trajectories} failing"
    passing = f"{result.passed_with_firing} of {result.passed_trajectories} passing"
    return Text(
        f"fires in {failing} and {passing} trajectories;"
        f" upper bound of the false alarms: {result.false_alarm_bound:.3f} (95 %);"
        f" highest mode without a pin: {format_enum_name(TargetMode, response.highest_mode)}"
    )


def render_policy_targets(result: Mapping[str, Any]) -> RenderableType:
    """Show the targets that a model wrote, each with its lesson and its backtest, and those that were refused."""
    table = make_score_table("target", "failing", "passing", "bound")
    for item in result["targets"]:
        table.add_row(
            f"{item['target']}\n{item['lesson']}",
            f"{item['failed_firing']} of {item['failed']}",
            f"{item['passed_firing']} of {item['passed']}",
            f"{item['false_alarm_bound']:.3f}",
        )
    refused = (Text(f"refused: {item['target']}: {item['rule']}", BAD) for item in result["refused"])
    used = f"{result['model']}, {result['input_tokens'] or 0} + {result['output_tokens'] or 0} tokens"
    return Group(table, *refused, Text(used, FAINT))


def render_backtest(result: Mapping[str, Any]) -> RenderableType:
    """Show the counts of a backtest, and the runs in which the target fires."""
    table = make_score_table("runs", "with a firing", "of")
    table.add_row("failing", str(result["failed_firing"]), str(result["failed"]))
    table.add_row("passing", str(result["passed_firing"]), str(result["passed"]))
    bound = f"upper bound of the false alarms: {result['false_alarm_bound']:.3f} (95 %)"
    lines = [
        Text(
            f"{'false alarm' if firing['is_success'] else 'failing'}: {firing['run_id']}, step {firing['step']}",
            BAD if firing["is_success"] else "",
        )
        for firing in result["firings"][:MAX_LISTED_RUNS]
    ]
    if len(result["firings"]) > MAX_LISTED_RUNS:
        lines.append(Text(f"and {count_noun(len(result['firings']) - MAX_LISTED_RUNS, 'more run')}", FAINT))
    return Group(table, Text(bound, FAINT), *lines)
