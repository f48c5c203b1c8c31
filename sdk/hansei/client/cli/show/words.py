"""Pieces of text that all views share: one look for one thing."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.reflector.v1 import trajectory_pb2 as trajectory

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

ID = "cyan"
GOOD = "green"
BAD = "red"
FAINT = "dim"
CHANGED = "yellow"

STATUS = {
    trajectory.TRAJECTORY_STATUS_SUCCESS: Text("success", GOOD),
    trajectory.TRAJECTORY_STATUS_FAILURE: Text("failure", BAD),
    trajectory.TRAJECTORY_STATUS_UNSPECIFIED: Text("unknown", FAINT),
}
SIGN = {
    playbook.DELTA_TYPE_ADD: Text("+", GOOD),
    playbook.DELTA_TYPE_UPDATE: Text("~", CHANGED),
    playbook.DELTA_TYPE_DELETE: Text("-", BAD),
}
VOTE = {
    playbook.VOTE_TAG_HELPFUL: Text("▲ helpful", GOOD),
    playbook.VOTE_TAG_HARMFUL: Text("▼ harmful", BAD),
    playbook.VOTE_TAG_NEUTRAL: Text("· neutral", FAINT),
}


def one_line(text: str, limit: int = 0) -> str:
    """The text on one line, cut to `limit` characters where one is given."""
    line = " ".join(text.split())
    return line if not limit or len(line) <= limit else line[: limit - 1] + "…"


def counted(number: int, noun: str) -> str:
    """`1 bullet`, `2 bullets`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def time_of(stamp: Timestamp) -> str:
    """A time of the contract in the user's time zone, to the second."""
    return stamp.ToDatetime(datetime.now().astimezone().tzinfo).strftime("%Y-%m-%d %H:%M:%S")


def votes_of(bullet: playbook.Bullet) -> Text:
    """A bullet's counters: `▲ 2 ▼ 0`."""
    counters = Text()
    counters.append(f"▲ {bullet.helpful}", GOOD if bullet.helpful else FAINT)
    counters.append(f" ▼ {bullet.harmful}", BAD if bullet.harmful else FAINT)
    return counters


def hanging(label: Text | str, body: RenderableType, indent: int = 2, width: int = 10) -> RenderableType:
    """A label with something beside it that wraps under itself."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=width, no_wrap=True)
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row(label, Text(body) if isinstance(body, str) else body)
    return Padding(grid, (0, 0, 0, indent))
