"""`hansei eval …`: measure the quality of retrieval, blame and learning on files. No server is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hansei.client.cli.command import print_result
from hansei.client.cli.groups import CommandGroup
from hansei.client.cli.options import Address, AsJson, DataDirectory, Exit, Local, connect, fail
from hansei.client.cli.output import say

app = CommandGroup("Measure quality on recorded data.")

File = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The trajectories, or for retrieval the queries.", exists=True, dir_okay=False),
]


@app.command()
def retrieval(
    file: File,
    variant: Annotated[
        list[str] | None, typer.Option(help="A ranking to compare with, such as bm25, vectors, rrf; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure search: nDCG@10, recall@5 and @10.

    FILE is a retrieval set, {"docs", "queries", "qrels"}. Settings and embedding model are those of the search service.
    """
    from hansei.client.cli.embedded_stack import build_stack_variables
    from hansei.client.local import set_environment
    from hansei.client.server import load_server

    commands = load_server()
    known_variants = commands.list_retrieval_variants()
    unknown_variants = sorted(set(variant or ()) - set(known_variants))
    if unknown_variants:
        fail(f"unknown variant {', '.join(unknown_variants)}; known: {', '.join(known_variants)}", Exit.USAGE)
    with set_environment(build_stack_variables()):
        qualities = commands.evaluate_retrieval(file, variant or ())
    print_result(qualities, as_json, "scores.render_retrieval")


@app.command()
def blame(file: File, as_json: AsJson = False) -> None:
    """Measure how often reflection names the step and the agent to blame.

    FILE has labelled trajectories of Who&When or tau-bench, one per line. Reflection uses its rules, not a model; in
    conversations with a user, the rules blame the first call that may change something.
    """
    from hansei.client.server import load_server

    print_result(load_server().evaluate_blame(file), as_json, "scores.render_blame")


@app.command()
def lift(
    base_url: Annotated[str, typer.Option(help="The OpenAI-compatible server, such as http://127.0.0.1:8000/v1.")],
    model: Annotated[str, typer.Option(help="The model; without it, the first that the server lists.")] = "",
    tasks: Annotated[int, typer.Option(help="Test tasks.", min=1, max=1000)] = 60,
    tokens: Annotated[int, typer.Option(help="Tokens of memory in a prompt, of four characters each.", min=1)] = 150,
    seed: Annotated[int, typer.Option(help="The seed of the made-up world: its tools and conventions.")] = 1,
    cache: Annotated[
        Path | None,
        typer.Option(help="A file that keeps the scores of prompts for the next measurement.", dir_okay=False),
    ] = None,
    letters: Annotated[
        bool,
        typer.Option(
            "--letters",
            help="Let the model name the letter of a call, where the server computes probabilities of texts slowly.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how much more often a model makes the right call with hansei's bullets, and with other memories.

    In a made-up world with twelve conventions that no model can know, 120 trajectories are learned offline in a
    temporary playbook. Then the model chooses its calls in other tasks: by the probabilities of their texts if the
    server returns them (vLLM does), else by letters. OPENAI_API_KEY is sent if it is set.
    """
    from hansei.client.cli.lift import measure_lift

    print_result(
        measure_lift(base_url, model, tasks, tokens, seed, cache, by_letters=letters), as_json, "scores.render_lift"
    )


@app.command()
def guards(
    train: Annotated[
        Path | None,
        typer.Argument(metavar="[TRAIN]", help="The trajectories to mine guards from.", exists=True, dir_okay=False),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The trajectories to test on. [default: cross-validation on TRAIN]",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    archive: Annotated[
        str,
        typer.Option(
            metavar="DATASET", help="Mine from and test on the archived trajectories of this dataset instead of TRAIN."
        ),
    ] = "",
    addr: Address = None,
    local: Local = False,
    data_dir: DataDirectory = None,
    targets: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Targets from `hansei guards from-policy --out FILE` or `from-failures`, to measure together with"
            " mined guards; repeatable.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure mined guards: the shares of failing and of passing trajectories in which a guard fires.

    TRAIN and the file of --test have trajectories with outcomes, in any format. No model is used. Without --test,
    the trajectories of TRAIN are tested in folds over tasks, each with guards that are mined from the other tasks.
    Targets that were written from a failed trajectory are not used in the fold that has its task. Only --archive
    needs a server.
    """
    from hansei.client.server import load_server

    if (train is None) == (not archive) or (archive and (test is not None or targets)):
        fail("name a file TRAIN, or --archive DATASET without --test and --targets", Exit.USAGE)
    commands = load_server()
    if train is None:
        from hansei.client.archive import read_archive

        with connect(addr, local, reads=True) as client:
            report = commands.evaluate_archived_guards(read_archive(client, archive))
    elif targets:
        report = commands.evaluate_written_targets(train, test, targets)
    else:
        report = commands.evaluate_guards(train, test)
    print_result(report, as_json, "scores.render_guards" if not targets else "scores.render_guard_sources")


@app.command()
def foresight(
    file: File,
    out: Annotated[
        Path, typer.Option(help="The folder for the curve, foresight.json and foresight.png.", file_okay=False)
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Measure how often the playbook shows how to avoid an error before it happens.

    Reads the trajectories of FILE in order. Before each tool error it searches for five bullets, all learned from
    earlier trajectories, and counts whether they hold the value or the call that worked afterwards, and whether they
    warn of the error. Simple memories are measured for comparison. Then the trajectory is learned, offline, in a
    temporary playbook.
    """
    from hansei.client.cli.foresight_curve import measure_foresight, write_curve

    curve = measure_foresight(file)
    print_result(curve[-1].document() if as_json else curve[-1], as_json, "scores.render_foresight")
    for path in write_curve(curve, out):
        say(f"wrote {path}")
