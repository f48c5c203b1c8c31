"""`hansei config init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import AsJson, Exit

app = CommandGroup("Configuration files.")


@app.command()
def init(
    component: Annotated[
        str | None, typer.Option("--component", "-c", help="config, or prompt_builder for prompts. [default: both]")
    ] = None,
    output_path: Annotated[
        Path | None, typer.Option("--output-path", "-o", help="With --component: the file to write.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.")] = False,
    workspace: Annotated[
        Path | None,
        typer.Option(envvar="HANSEI_WORKSPACE", help="The folder in whose subfolder configs/ the files are written."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write configuration files with the defaults."""
    from hansei.client.cli.output import print_json, say
    from hansei.client.errors import BadSetting
    from hansei.client.server import load_server

    try:
        paths = load_server().init_config(component, output_path, force=force, workspace=workspace)
    except BadSetting as error:
        # The specification fixes these messages (B-43 to B-46), so no "Error: " is added.
        say(str(error))
        raise typer.Exit(Exit.FAILED) from None
    if as_json:
        print_json({"written": [str(path) for path in paths]})
    else:
        for path in paths:
            typer.echo(f"wrote {path}")
