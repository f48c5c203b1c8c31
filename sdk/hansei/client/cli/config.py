"""`hansei config init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hansei.client.cli.options import Exit

app = typer.Typer(help="Configuration files.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def config() -> None:
    """Configuration files."""


@app.command()
def init(
    component: Annotated[
        str | None, typer.Option("--component", "-c", help="config or prompt_builder. [default: both]")
    ] = None,
    output_path: Annotated[
        Path | None, typer.Option("--output-path", "-o", help="Where to write the one component.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite what is there.")] = False,
    workspace: Annotated[
        Path | None, typer.Option(envvar="HANSEI_WORKSPACE", help="Folder whose configs/ is written to.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout, and nothing else.")] = False,
) -> None:
    """Write configuration files with the defaults."""
    from hansei.client.cli.output import print_json, say
    from hansei.client.errors import BadSetting
    from hansei.client.server import server

    try:
        written = server().init_config(component, output_path, force=force, workspace=workspace)
    except BadSetting as error:
        # The texts are the specification's own, so nothing is put before them (B-43 to B-46).
        say(str(error))
        raise typer.Exit(Exit.FAILED) from None
    if as_json:
        print_json({"written": [str(path) for path in written]})
    else:
        for path in written:
            typer.echo(f"wrote {path}")
