"""Results as JSON, as tables in this folder's README, and as a plot."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from bench.report import machine

HERE = Path(__file__).parent
Rows = list[dict[str, Any]]


def write(name: str, rows: Rows, about: dict[str, Any] | None = None) -> None:
    """Write `results/<name>.json`, and the table between `<!-- <name> -->` and `<!-- end -->` in the README."""
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(
        json.dumps({"machine": machine(), "load": os.getloadavg(), **(about or {}), "rows": rows}, indent=2) + "\n"
    )
    readme = HERE / "README.md"
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    readme.write_text(marked.sub(lambda found: found[1] + _table(rows) + found[2], readme.read_text()))


def read(name: str) -> Rows:
    """Return the rows of `results/<name>.json`; none if there is no such file."""
    file = HERE / "results" / f"{name}.json"
    rows: Rows = json.loads(file.read_text())["rows"] if file.exists() else []
    return rows


def plot_engines(rows: Rows) -> None:
    """Plot query times by size, one line an engine, as `results/engine.png`."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 5))
    for engine in dict.fromkeys(row["engine"] for row in rows):
        own = [row for row in rows if row["engine"] == engine]
        axes.plot([row["documents"] for row in own], [row["query_p50_us"] for row in own], marker="o", label=engine)
    axes.set(xscale="log", yscale="log", xlabel="documents", ylabel="hybrid query, p50, µs")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(HERE / "results/engine.png", dpi=120)


def _table(rows: Rows) -> str:
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([_cell(row[column]) for column in columns] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
