"""The styles, symbols and formats that all views share."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chassis.errors import shorten
from hansei.playbook.v1 import playbook_pb2 as playbook
from hansei.reflector.v1 import trajectory_pb2 as trajectory

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp
    from rich.console import RenderableType

    from hansei.playbook.v1.usage_pb2 import ModelUsage

ID = "cyan"
GOOD = "green"
BAD = "red"
FAINT = "dim"
CHANGED = "yellow"
_CONSONANT_Y = re.compile(r"(?<=[^aeiou])y$")

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


def put_on_one_line(text: str, limit: int = 0) -> str:
    """Return the text on one line, cut at `limit` characters unless it is 0."""
    line = " ".join(text.split())
    return shorten(line, limit) if limit else line


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun: `1 bullet`, `2 bullets`, `2 trajectories`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {_CONSONANT_Y.sub('ie', noun)}s"


def format_usage(*usages: ModelUsage) -> str:
    """Return the sum of the usage of model calls: `2 model calls, 310 tokens sent, 42 received, $0.0001`."""
    calls = sum(usage.calls for usage in usages)
    if not calls:
        return "no model was called"
    sent, received = sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages)
    parts = [count_noun(calls, "model call"), f"{sent:,} tokens sent", f"{received:,} received"]
    if uncounted := sum(usage.calls_without_tokens for usage in usages):
        parts.append(f"tokens of {count_noun(uncounted, 'call')} unknown")
    unpriced = sum(usage.calls_without_cost for usage in usages)
    if unpriced < calls:
        parts.append(f"${sum(usage.cost_usd for usage in usages):.4f}")
    if unpriced:
        parts.append(f"cost of {count_noun(unpriced, 'call')} unknown")
    return ", ".join(parts)


def format_cost(cost_usd: float) -> str:
    """Return US dollars: `$1.20`, or of less than a cent the first two digits, `$0.00034`."""
    if cost_usd == 0 or cost_usd >= 0.01:
        return f"${cost_usd:,.2f}"
    decimals = 1 - math.floor(math.log10(cost_usd))
    return f"${cost_usd:.{decimals}f}"


def format_percent(share: float) -> str:
    """Return a share of one in percent, `63%`."""
    return f"{round_points(share)}%"


def format_points(difference: float) -> str:
    """Return a difference of shares in points of a hundred, `+63`."""
    return f"{round_points(difference):+}"


def round_points(share: float) -> int:
    """Return a share in whole points of a hundred; halves are rounded up, as in the console."""
    return math.floor(100 * share + 0.5)


def format_enum_name(enum: Any, value: int) -> str:
    """Return the name of an enum value in lower case, without the name of the enum: JOB_STATE_RUNNING is `running`."""
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.DESCRIPTOR.name).upper()
    return str(enum.Name(value)).removeprefix(f"{prefix}_").lower()


def format_time(timestamp: Timestamp) -> str:
    """Return a time of the contract in the user's time zone, to the second."""
    return timestamp.ToDatetime(datetime.now().astimezone().tzinfo).strftime("%Y-%m-%d %H:%M:%S")


def format_vote_counters(bullet: playbook.Bullet) -> Text:
    """Return the vote counters of a bullet: `▲ 2 ▼ 0`."""
    counters = Text()
    counters.append(f"▲ {bullet.helpful}", GOOD if bullet.helpful else FAINT)
    counters.append(f" ▼ {bullet.harmful}", BAD if bullet.harmful else FAINT)
    return counters


def label_row(label: Text | str, body: RenderableType, indent: int = 2, width: int = 10) -> RenderableType:
    """Return a row of a label and a body; the body wraps in its own column."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=width, overflow="fold")
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row(label, Text(body) if isinstance(body, str) else body)
    return Padding(grid, (0, 0, 0, indent), expand=False)


def make_score_table(first: str, *numbers: str) -> Table:
    """Return an empty table: a column of names, then columns of numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=FAINT)
    table.add_column(first, overflow="fold")
    for column in numbers:
        table.add_column(column, justify="right", overflow="fold")
    return table


def keep_ids_whole(table: Table) -> Table:
    """Return a filled table that never shortens its first column, of ids: in a narrow terminal, the others wrap."""
    ids, *others = table.columns
    ids.no_wrap = True
    ids.min_width = max(cell_len(str(cell)) for cell in (ids.header, *ids.cells))
    for column in others:
        words = [word for cell in column.cells for word in str(cell).split()]
        column.min_width = max(map(cell_len, words), default=0)
    return table
