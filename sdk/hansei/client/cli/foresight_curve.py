"""`hansei eval foresight`: measure foresight on a temporary offline stack, and write the curve to files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from hansei.client.cli.embedded_stack import build_temp_settings, embedded_client
from hansei.client.cli.foresight import ForesightCounts, ForesightMeter
from hansei.client.cli.loop import read_file
from hansei.client.cli.options import Exit, fail
from hansei.client.cli.output import create_console, say
from hansei.client.cli.show.progress import progress_bar
from hansei.client.client import Client
from hansei.client.trajectories import TrajectoryRecord

DATASET = "foresight"


def measure_foresight(file: Path) -> list[ForesightCounts]:
    """Return the counts after each trajectory of a file. Ends the command if there is none."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="hansei-foresight-"))
        client = stack.enter_context(embedded_client(build_temp_settings(Path(directory))))
        records = _read_records(client, file)
        set_completed = stack.enter_context(progress_bar("measuring", len(records), create_console(stderr=True)))
        curve = []
        for counts in ForesightMeter(client).measure(records):
            curve.append(counts)
            set_completed(len(curve))
    return curve


def _read_records(client: Client, file: Path) -> list[TrajectoryRecord]:
    """Return the trajectories of a file in order, all in one dataset, so that each can help the next."""
    records = list(read_file(client, file, DATASET))
    for record in records:
        record.trajectory.dataset = DATASET
    if not records:
        fail(f"{file} has no trajectory", Exit.USAGE)
    return records


def write_curve(curve: Sequence[ForesightCounts], folder: Path) -> Iterator[Path]:
    """Write the shares as JSON and, if matplotlib is installed, as a picture; yield the files."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = folder / "foresight.json"
    numbers.write_text(json.dumps([counts.document() for counts in curve], indent=2) + "\n", encoding="utf-8")
    yield numbers
    try:
        import matplotlib
    except ImportError:
        say("no picture: matplotlib is not installed (pip install 'hansei[eval]')")
        return
    matplotlib.use("Agg")
    yield _draw_curve(curve, folder / "foresight.png")


def _draw_curve(curve: Sequence[ForesightCounts], file: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    totals = [counts.trajectories for counts in curve]
    for source in ("playbook", "uncurated", "random"):
        shares = [counts.shares(getattr(counts, source))["foreseen_of_seen"] for counts in curve]
        axes.plot(totals, shares, label=f"{source}, errors seen before")
    of_all = [counts.shares(counts.playbook)["foreseen_of_all"] for counts in curve]
    axes.plot(totals, of_all, "--", label="playbook, all errors")
    axes.set(xlabel="learned trajectories", ylabel="share foreseen", ylim=(0, 1))
    axes.legend()
    figure.savefig(file, dpi=120)
    return file
