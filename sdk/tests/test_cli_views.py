"""Test the views of the command line without a server."""

from __future__ import annotations

from rich.console import Console, RenderableType

from hansei.client.cli.show.guards import render_backtest


def render(view: RenderableType, width: int = 80) -> str:
    """Return the text of a view in a terminal of this width."""
    console = Console(width=width)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


def test_a_firing_in_the_archive_is_shown_with_the_command_that_opens_its_step() -> None:
    firing = {"trajectory_id": "part 1", "step": 3, "is_success": False, "is_mistake": False}
    names = ("failed", "failed_firing", "passed", "passed_firing", "false_alarms", "false_alarm_bound")
    counts = dict.fromkeys(names, 1)
    text = render(render_backtest({**counts, "firings": [firing]}, "devtools"), 120)
    assert "failing: hansei trajectories show 'part 1' --dataset devtools --step 3" in text
    assert "failing: part 1, step 3" in render(render_backtest({**counts, "firings": [firing]}))
