"""`hansei validate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hansei.client.cli.options import Address, AsJson, Exit, Local, connected, fail

STDIN = "-"


def validate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The report as JSON; - for stdin.")],
    kind: Annotated[str, typer.Option("--type", "-t", help="organizer, advisor, or the name of a registered kind.")],
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="ID", help="An id the report may refer to; repeatable.")
    ] = None,
    dashboard: Annotated[
        Path | None, typer.Option(help="A dashboard as JSON: all its nodes may be referred to.", dir_okay=False)
    ] = None,
    linguistic: Annotated[
        bool, typer.Option("--linguistic", help="Find forbidden words by Japanese morphology, not literally.")
    ] = False,
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Check a report against the rules of its kind.

    Exits with 1 when the report has an error; warnings leave it valid.
    """
    from hansei.validator.v1.report_pb2 import WORDING_LINGUISTIC, WORDING_LITERAL

    report = _text(file)
    nodes = [*(node or ()), *(_nodes(dashboard) if dashboard else ())]
    wording = WORDING_LINGUISTIC if linguistic else WORDING_LITERAL
    with connected(addr, local) as client:
        result = client.validator.validate_report(
            type=kind, report_json=report, valid_node_ids=nodes, wording=wording
        ).result
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import findings

    if as_json:
        print_json(result)
    else:
        console().print(findings.result(result))
    if not result.ok:
        raise typer.Exit(Exit.FAILED)


def _text(file: str) -> str:
    if file != STDIN and not Path(file).is_file():
        fail(f"{file} does not exist", Exit.USAGE)
    content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        fail(f"{file} is not UTF-8: {error.reason} at byte {error.start}", Exit.USAGE)


def _nodes(dashboard: Path) -> Iterator[str]:
    """The ids of all nodes of a dashboard, `{"trays": {"<name>": [{"id": …}]}}`."""
    try:
        trays: dict[str, Any] = json.loads(_text(str(dashboard)))["trays"]
        yield from [str(node["id"]) for tray in trays.values() for node in tray]
    except (ValueError, TypeError, KeyError, AttributeError):
        fail(f"{dashboard} is no dashboard: an object with `trays`, each a list of nodes with an `id`", Exit.USAGE)
