"""`hansei doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Address, AsJson, Exit, fail

if TYPE_CHECKING:
    from hansei.client.cli.service_checks import CheckResult

commands = CommandGroup()


@commands.command()
def doctor(
    addr: Address = None,
    server: Annotated[bool, typer.Option(help="Also check the server and the services behind it.")] = True,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.tar.gz",
            help="Also write a support bundle to this file, without secrets, bullets and trajectories.",
        ),
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With --bundle: add the end of this log file. [repeatable]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check settings, keys, models, data and server.

    Makes one small call to each configured chat and embedding model. Shows how to correct each error. Exits with 1 if
    there is one. With --bundle, --json prints the manifest of the bundle, which contains the results.
    """
    from hansei.client.cli.checks import check_machine
    from hansei.client.cli.output import create_console, print_json
    from hansei.client.cli.service_checks import check_server
    from hansei.client.cli.show import checks

    if log and not bundle:
        fail("--log adds a file to the bundle: use it with --bundle", Exit.USAGE)
    if bundle and bundle.exists():
        fail(f"{bundle} exists already: name another file", Exit.USAGE)
    results = []
    for unmasked in chain(check_machine(), check_server(addr) if server else ()):
        result = unmasked.without_secrets()
        results.append(result)
        if not as_json:
            create_console().print(checks.render_check(result))
        elif not bundle:
            print_json(checks.build_document(result), line=True)
    if bundle:
        _write_bundle(bundle, addr, results, log or [], server=server, as_json=as_json)
    if any(result.remedy for result in results):
        raise typer.Exit(Exit.FAILED)


def _write_bundle(
    file: Path, addr: str | None, results: Sequence[CheckResult], logs: Sequence[Path], *, server: bool, as_json: bool
) -> None:
    from hansei.client.cli import support
    from hansei.client.cli.output import create_console, print_json
    from hansei.client.cli.show import checks

    try:
        manifest = support.write_bundle(file, addr, results, logs, ask_servers=server)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}")
    if as_json:
        print_json(manifest)
    else:
        create_console().print(checks.render_manifest(file, manifest))
