"""What the doctor found, and what is in a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from hansei.client.cli.checks import Finding
from hansei.client.cli.show.words import BAD, GOOD, hanging


def finding(found: Finding) -> RenderableType:
    """One line; beneath it what to do, where something is to be done."""
    label = Text.assemble(("✗ ", BAD) if found.remedy else ("✓ ", GOOD), found.name)
    body = Text(found.found)
    if found.remedy:
        body.append(f"\n→ {found.remedy}", "bold")
    return hanging(label, body, indent=0, width=32)


def document(found: Finding) -> dict[str, object]:
    """A finding as JSON."""
    return {"check": found.name, "ok": not found.remedy, "found": found.found, "do": found.remedy or None}


def manifest(file: Path, made: Mapping[str, Any]) -> RenderableType:
    """What a bundle holds and what it does not."""
    lines = [Text.assemble("\nwrote ", (str(file), "bold"), ":")]
    lines += [Text(f"  {each['file']}: {each['what']}") for each in made["files"]]
    lines += [Text("left out:")]
    lines += [Text(f"  {each['what']}: {each['why']}") for each in made["left_out"]]
    return Text("\n").join(lines)
