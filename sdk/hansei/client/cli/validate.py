"""`hansei validate`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Exit, fail
from hansei.client.cli.sources import read_source_text

if TYPE_CHECKING:
    from hansei.client.client import Client

commands = CommandGroup()


def exit_if_invalid(result: Any) -> None:
    """End the command with 1 if a report has an error, or if no valid report came of a run."""
    if not result.ok:
        raise typer.Exit(Exit.FAILED)


@command(commands, "findings.render_validation", reads=True, check=exit_if_invalid)
def validate(
    client: Client,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The report as JSON; - for stdin.")],
    kind: Annotated[str, typer.Option("--type", "-t", help="organizer, advisor, or the name of a registered kind.")],
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="ID", help="An id that the report may refer to; repeatable.")
    ] = None,
    dashboard: Annotated[
        Path | None, typer.Option(help="A dashboard as JSON; the report may refer to its nodes.", dir_okay=False)
    ] = None,
    linguistic: Annotated[
        bool, typer.Option("--linguistic", help="Find forbidden words by Japanese morphology, not literally.")
    ] = False,
) -> object:
    """Check a report against the rules of its kind.

    Exits with 1 if the report has an error; warnings are no errors.
    """
    from hansei.validator.v1.report_pb2 import WORDING_LINGUISTIC, WORDING_LITERAL

    return client.validator.validate_report(
        type=kind,
        report_json=read_source_text(file),
        valid_node_ids=[*(node or ()), *(_iterate_node_ids(dashboard) if dashboard else ())],
        wording=WORDING_LINGUISTIC if linguistic else WORDING_LITERAL,
    ).result


def _iterate_node_ids(dashboard: Path) -> Iterator[str]:
    """Yield the ids of all nodes of a dashboard, `{"trays": {"<name>": [{"id": …}]}}`."""
    try:
        trays: dict[str, Any] = json.loads(read_source_text(str(dashboard)))["trays"]
        yield from [str(node["id"]) for tray in trays.values() for node in tray]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        fail(f"{dashboard} is not a dashboard: an object with `trays`, lists of nodes with an `id`", Exit.USAGE)
