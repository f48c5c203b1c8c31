"""Write results as JSON and as tables between the marks of the README."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

README = Path(__file__).with_name("README.md")


def write_tables(results: Path, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Write these tables of `results`, and each table between `<!-- name -->` and `<!-- end -->`."""
    others = json.loads(results.read_text()) if results.exists() else {}
    results.write_text(json.dumps(others | tables, indent=2, ensure_ascii=False) + "\n")
    text = README.read_text()
    for name, rows in tables.items():
        columns = list(rows[0])
        lines = [columns, ["---"] * len(columns), *([str(row[column]) for column in columns] for row in rows)]
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", rf"\g<1>{table}\g<2>", text, flags=re.DOTALL)
    README.write_text(text)
