"""`hansei doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from hansei.client.cli.options import Address, AsJson, Exit


def doctor(
    addr: Address = None,
    server: Annotated[bool, typer.Option(help="Also ask the server and the services behind it.")] = True,
    as_json: AsJson = False,
) -> None:
    """Check settings, keys, data and server.

    Says what to do about what is wrong. Exits with 1 when something is.
    """
    from hansei.client.cli.checks import check_machine, check_server
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import checks

    wrong = 0
    for finding in (*check_machine(), *(check_server(addr) if server else ())):
        wrong += bool(finding.remedy)
        if as_json:
            print_json(checks.document(finding), line=True)
        else:
            console().print(checks.finding(finding))
    if wrong:
        raise typer.Exit(Exit.FAILED)
