"""`hansei search` and `hansei ask`."""

from __future__ import annotations

from typing import Annotated

import typer

from hansei.client.cli.options import Address, AsJson, Dataset, Local, connected, dataset_or_only

Query = Annotated[str, typer.Argument(metavar="QUERY", help="What is looked for or asked.")]
MinRevision = Annotated[int, typer.Option(min=0, help="Wait until the index holds this revision of the playbook.")]


def search(
    query: Query,
    dataset: Dataset = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="How many bullets.")] = 10,
    section: Annotated[list[str] | None, typer.Option(help="Only bullets of this section; repeatable.")] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="Only bullets with at least this confidence, 0 to 1. [default: 0.3]")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Weight of the vector score, 0 to 1.")] = None,
    min_revision: MinRevision = 0,
    explain: Annotated[bool, typer.Option(help="Also show which terms matched.")] = False,
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Rank the bullets of a playbook for a query.

    Shows the combined, the vector and the BM25 score of each.
    """
    with connected(addr, local) as client:
        found = client.search(
            dataset_or_only(client, dataset),
            query,
            top_k=top_k,
            sections=section or (),
            min_confidence=min_confidence,
            alpha=alpha,
            min_revision=min_revision,
            explain=explain,
        )
    from hansei.client.cli.output import console, print_json

    if as_json:
        print_json(found)
    else:
        from hansei.client.cli.show import ranked

        console().print(ranked.bullets(found.results))


def ask(
    query: Query,
    dataset: Dataset = None,
    min_revision: MinRevision = 0,
    addr: Address = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question from a playbook."""
    with connected(addr, local) as client:
        answered = client.ask(dataset_or_only(client, dataset), query, min_revision=min_revision)
    from hansei.client.cli.output import console, print_json
    from hansei.client.cli.show import ranked

    if as_json:
        print_json(answered)
    else:
        console().print(ranked.answer(answered))
    if ranked.failed(answered):
        raise typer.Exit(1)
