"""The figures of docs/operations/faults.md: `python -m bench.faults` breaks one thing after the other, and counts.

The scenarios are the tests of `tests/resilience/test_faults_*.py` at their full size, the database away for 30 s; a
scenario that loses acknowledged data, or does not recover, fails the run. Takes twenty minutes; some need root.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.resilience.load import FIGURES
from tests.support.campaigns import VARIABLE as CAMPAIGNS
from tests.support.systems import ROOT

KILLS = re.compile(r"kills \d+ to (\d+) of all services")
"""The name of a part of the kills; a table has one line for all of them."""
COLUMNS = ("fault", "acknowledged", "lost", "twice", "refused, by code and reason", "recovered after")


def line(*cells: object) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def row(figure: dict[str, Any]) -> str:
    """Return a figure as a line of the table."""
    refused = "; ".join(f"{times} {refusal}" for refusal, times in figure["refused"].items()) or "none"
    seconds = figure["recovery_seconds"]
    after = "" if seconds is None else f"{seconds} s"
    return line(figure["fault"], figure["acknowledged"], figure["lost"], figure["twice"], refused, after)


def join_kills(figures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures with those of all kills as one: sums, and the longest recovery."""
    parts = [figure for figure in figures if KILLS.fullmatch(figure["fault"])]
    if not parts:
        return list(figures)
    refused: Counter[str] = Counter()
    for part in parts:
        refused.update(part["refused"])
    kills = max(int(match[1]) for part in parts if (match := KILLS.fullmatch(part["fault"])))
    joined = {
        "fault": f"{kills} kills, all services one after the other",
        **{column: sum(part[column] for part in parts) for column in ("acknowledged", "lost", "twice")},
        "refused": dict(refused),
        "recovery_seconds": max(part["recovery_seconds"] for part in parts),
    }
    return [figure for figure in figures if figure not in parts] + [joined]


def main() -> None:
    """Run the scenarios; print the table. Exits as the tests do."""
    with tempfile.TemporaryDirectory() as folder:
        figures_file = Path(folder) / "figures"
        tests = sorted(str(file) for file in (ROOT / "tests/resilience").glob("test_faults_*.py"))
        environment = {**os.environ, FIGURES: str(figures_file), CAMPAIGNS: "full"}
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", *tests], cwd=ROOT, env=environment, check=False)
        figures = [json.loads(figure_line) for figure_line in figures_file.read_text(encoding="utf-8").splitlines()]
    print("\n".join([line(*COLUMNS), line(*["---"] * len(COLUMNS)), *map(row, join_kills(figures))]))
    print(f"\nload of the machine over the last minute: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
