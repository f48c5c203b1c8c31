"""`hansei doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.options import Address, AsJson, Exit, fail

if TYPE_CHECKING:
    from hansei.client.cli.checks import Finding


def doctor(
    addr: Address = None,
    server: Annotated[bool, typer.Option(help="Also ask the server and the services behind it.")] = True,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE.tar.gz", help="Also write what somebody who helps must know: no secrets, no texts."),
    ] = None,
    log: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A log whose end goes into the bundle. [repeatable]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check settings, keys, data and server.

    Says what to do about what is wrong. Exits with 1 when something is. With --bundle, --json is the manifest of the
    bundle; the findings are in it.
    """
    from hansei.client.cli.checks import check_machine, check_server
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import checks

    if log and not bundle:
        fail("--log names what goes into a bundle: give --bundle, too", Exit.USAGE)
    if bundle and bundle.exists():
        fail(f"{bundle} is there already: name another file", Exit.USAGE)
    findings = []
    for each in chain(check_machine(), check_server(addr) if server else ()):
        finding = each.without_secrets()
        findings.append(finding)
        if not as_json:
            console().print(checks.finding(finding))
        elif not bundle:
            print_json(checks.document(finding), line=True)
    if bundle:
        _bundle(bundle, addr, findings, log or [], server=server, as_json=as_json)
    if any(finding.remedy for finding in findings):
        raise typer.Exit(Exit.FAILED)


def _bundle(
    file: Path, addr: str | None, findings: Sequence[Finding], logs: Sequence[Path], *, server: bool, as_json: bool
) -> None:
    from hansei.client.cli import support
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import checks

    try:
        manifest = support.make(file, addr, findings, logs, ask=server)
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}")
    if as_json:
        print_json(manifest)
    else:
        console().print(checks.manifest(file, manifest))
