"""`hansei eval foresight`: the runs of a file on an offline stack of their own, and the curve as files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from hansei.client.cli.embedded import embedded_client, throwaway
from hansei.client.cli.foresight import Foresight, Watcher
from hansei.client.cli.options import Exit, fail
from hansei.client.cli.output import progress_console, say
from hansei.client.cli.show.progress import progress
from hansei.client.client import Client
from hansei.client.runs import Run, Unreadable, read

DATASET = "foresight"


def watch(file: Path) -> list[Foresight]:
    """The counts after each run of a file. Ends the command when it holds none; raises for one that cannot be read."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="hansei-foresight-"))
        client = stack.enter_context(embedded_client(throwaway(Path(directory))))
        runs = _runs(client, file)
        advance = stack.enter_context(progress("watching", len(runs), progress_console()))
        curve = []
        for point in Watcher(client).follow(runs):
            curve.append(point)
            advance()
    return curve


def _runs(client: Client, file: Path) -> list[Run]:
    """The runs of a file in order, all in one dataset: what one learned is to help the next."""
    runs = []
    for found in read(client, file.name, file.read_bytes(), DATASET):
        if isinstance(found, Unreadable):
            raise found.error
        found.trajectory.dataset = DATASET
        runs.append(found)
    if not runs:
        fail(f"{file} holds no run", Exit.USAGE)
    return runs


def write_curve(curve: Sequence[Foresight], folder: Path) -> Iterator[Path]:
    """Write the shares after each run as JSON and, where matplotlib is installed, as a picture; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = folder / "foresight.json"
    numbers.write_text(json.dumps([point.document() for point in curve], indent=2) + "\n", encoding="utf-8")
    yield numbers
    try:
        import matplotlib
    except ImportError:
        say("no picture: matplotlib is not installed (pip install 'hansei[eval]')")
        return
    matplotlib.use("Agg")
    yield _drawn(curve, folder / "foresight.png")


def _drawn(curve: Sequence[Foresight], file: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    runs = [point.runs for point in curve]
    for label, shares in (
        ("playbook", [point.shares(point.playbook) for point in curve]),
        ("uncurated", [point.shares(point.uncurated) for point in curve]),
        ("random", [point.shares(point.random) for point in curve]),
    ):
        axes.plot(runs, [share["foreseen_of_seen"] for share in shares], label=f"{label}, errors seen before")
    of_all = [point.shares(point.playbook)["foreseen_of_all"] for point in curve]
    axes.plot(runs, of_all, "--", label="playbook, all errors")
    axes.set(xlabel="runs learned", ylabel="share foreseen", ylim=(0, 1))
    axes.legend()
    figure.savefig(file, dpi=120)
    return file
