"""Write results as a JSON file and as a table in `bench/README.md`."""

from __future__ import annotations

import json
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MEASURED_WITH = ("grpcio", "protobuf", "faiss-cpu", "numpy", "sqlalchemy", "uvloop")


def machine() -> dict[str, str]:
    """Return the machine and the versions with which the figures were measured."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    versions = {name: version(name) for name in MEASURED_WITH}
    return {"cpu": model, "cores": str(os.cpu_count()), "python": platform.python_version(), **versions}


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def write(name: str, results: dict[str, Any]) -> None:
    """Write `results/<name>.json` and put its rows between the markers `<!-- <name> -->` and `<!-- end -->`."""
    write_json(name, results)
    write_table(HERE / "README.md", name, results["rows"])


def write_json(name: str, results: dict[str, Any]) -> None:
    """Write `results/<name>.json`."""
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / f"{name}.json").write_text(json.dumps(results, indent=2) + "\n")


def write_table(page: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Put rows between the markers `<!-- <name> -->` and `<!-- end -->` of a page, and print them."""
    table = _table(rows)
    text = re.sub(
        rf"(<!-- {name} -->\n).*?(<!-- end -->)",
        lambda found: found[1] + table + found[2],
        page.read_text(),
        flags=re.DOTALL,
    )
    page.write_text(text)
    print(table)


def _table(rows: list[dict[str, Any]]) -> str:
    columns = list(rows[0])
    lines = [columns, ["---"] * len(columns), *([_cell(row[column]) for column in columns] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
