"""The results of the doctor, and the manifest of a support bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from hansei.client.cli.show.words import BAD, GOOD, label_row

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hansei.client.cli.service_checks import CheckResult

_LABEL_WIDTH = len("✓ validator: validator_database_url")


def render_check(result: CheckResult) -> RenderableType:
    """Show a result on one line, and the remedy of an error below it."""
    label = Text.assemble(("✗ ", BAD) if result.remedy else ("✓ ", GOOD), result.name)
    body = Text(result.finding)
    if result.remedy:
        body.append(f"\n→ {result.remedy}", "bold")
    return label_row(label, body, indent=0, width=_LABEL_WIDTH)


def build_document(result: CheckResult) -> dict[str, object]:
    """Return a result as JSON."""
    return {"check": result.name, "ok": not result.remedy, "found": result.finding, "do": result.remedy or None}


def render_manifest(file: Path, content: Mapping[str, Any]) -> RenderableType:
    """Show the files of a bundle, and the parts that it omits."""
    lines = [Text.assemble("\nwrote ", (str(file), "bold"), ":")]
    lines += [Text(f"  {entry['file']}: {entry['what']}") for entry in content["files"]]
    lines += [Text("left out:")]
    lines += [Text(f"  {entry['what']}: {entry['reason']}") for entry in content["left_out"]]
    return Text("\n").join(lines)
