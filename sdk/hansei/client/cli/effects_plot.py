"""Draw the effects of the playbook and of its bullets as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hansei.client.cli.options import Exit, fail
from hansei.evidence.v1.evidence_pb2 import BulletEffect, Effect
from hansei.evidence.v1.evidence_service_pb2 import GetLiftResponse

MAX_BULLETS = 40


def draw_effects(lift: GetLiftResponse, effects: Sequence[BulletEffect], file: Path) -> None:
    """Write a picture: a row for each effect with its 95 % interval, in points of a hundred.

    The suffix of the file chooses the format. Bullets without sessions in both arms are omitted, and all after the
    `MAX_BULLETS` with the strongest evidence. Ends the command if matplotlib is missing or the file cannot be written.
    """
    try:
        import matplotlib
    except ImportError:
        fail("a picture needs matplotlib: pip install 'hansei[eval]'")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    rows = [("whole playbook", lift.lift)] if _has_both_arms(lift.lift) else []
    rows += [(bullet.bullet_id, bullet.effect) for bullet in effects if _has_both_arms(bullet.effect)][:MAX_BULLETS]
    if not rows:
        fail("there is nothing to draw: no effect has sessions in both arms")
    figure = Figure(figsize=(7, 1.2 + 0.3 * len(rows)), layout="constrained")
    axes = figure.subplots()
    heights = range(len(rows), 0, -1)
    differences = [100 * effect.difference for _, effect in rows]
    spans = [
        [100 * (effect.difference - effect.lower) for _, effect in rows],
        [100 * (effect.upper - effect.difference) for _, effect in rows],
    ]
    axes.errorbar(differences, heights, xerr=spans, fmt="o", capsize=3)
    axes.axvline(0, linewidth=0.8, color="grey")
    axes.set_yticks(heights, [name for name, _ in rows])
    axes.set(xlabel="points of success that it adds, with 95 % interval", xlim=(-105, 105))
    try:
        figure.savefig(file, dpi=120)
    except (OSError, ValueError) as error:
        fail(f"{file}: {error}", Exit.USAGE)


def _has_both_arms(effect: Effect) -> bool:
    return bool(effect.served.sessions and effect.withheld.sessions)
