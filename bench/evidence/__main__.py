"""Simulate datasets with and without effects: `python -m bench.evidence [TABLE …] [--datasets 1000]`.

The measuring functions are those of the service (`services.evidence.domain`); arrays hold many datasets at once. Writes
`results.json` and the tables of the README.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.evidence.tables import write_tables
from bench.evidence.votes import measure_rules
from services.evidence.domain.discoveries import find_block, select_discoveries
from services.evidence.domain.drift import ALARM_EVIDENCE, DriftStatistics, watch
from services.evidence.domain.effects import EffectStatistics, update
from services.evidence.domain.intervals import compute_interval
from services.evidence.domain.policy import TrialPolicy

HERE = Path(__file__).parent
POLICY = TrialPolicy()
SERVED = 1.0 - POLICY.bullet_holdout
ERROR = 0.05
REQUIRED_ALONE, REQUIRED_AS_FIRST = 20.0, 750.0
"""The evidence that decides one bullet alone, and the first of 30 bullets."""

Floats = NDArray[np.float64]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class SimulatedWorld:
    """Datasets whose sessions succeed with a base rate, to which bullets add their effects.

    ``base`` returns the rate of a session's number; with `own_outcomes` each bullet has an outcome of its own, whether
    its mistake was avoided. `missing` is the share of sessions without report; `parallel` sessions run at once and
    report in random order; `teaching` is the gain of the base rate per session of the first bullet's served arm, which
    all later sessions have.
    """

    name: str
    effects: tuple[float, ...]
    base: tuple[float, float] = (0.5, 0.5)
    own_outcomes: bool = False
    missing: float = 0.0
    parallel: int = 1
    teaching: float = 0.0


def simulate(world: SimulatedWorld, datasets: int, sessions: int, seed: int) -> Floats:
    """Return the session of each bullet's decision, shape (datasets, bullets); infinite for none."""
    random = np.random.default_rng(seed)
    shape = datasets, len(world.effects)
    effects = np.array(world.effects)
    block = find_block(0, POLICY.false_discovery_rate)
    statistics = EffectStatistics(*(np.full(shape, value) for value in EffectStatistics()))
    decided = np.full(shape, np.inf)
    taught = np.zeros((datasets, 1))
    pending: list[tuple[Floats, Floats]] = []
    rows = np.arange(datasets)
    for session in range(1, sessions + 1):
        share = session / sessions
        base = world.base[0] * (1.0 - share) + world.base[1] * share + np.minimum(taught, 0.4)
        served = (random.random(shape) < SERVED).astype(float)
        taught += world.teaching * served[:, :1]
        if world.own_outcomes:
            outcome = (random.random(shape) < base + effects * served).astype(float)
        else:
            rate = np.clip(base + ((served - SERVED) * effects).sum(axis=1, keepdims=True), 0.02, 0.98)
            outcome = np.broadcast_to((random.random((datasets, 1)) < rate).astype(float), shape)
        pending.append((served, outcome))
        if len(pending) < world.parallel:
            continue
        # Each dataset reports another one of its sessions in progress.
        chosen = random.integers(len(pending), size=datasets)
        reported = tuple(np.stack([parts[at] for parts in pending])[chosen, rows] for at in (0, 1))
        for position, (others_served, others_outcome) in enumerate(pending):
            is_chosen = (chosen == position)[:, None]
            others_served[...] = np.where(is_chosen, pending[-1][0], others_served)
            pending[position] = others_served, np.where(is_chosen, pending[-1][1], others_outcome)
        pending.pop()
        present = (random.random((datasets, 1)) >= world.missing) & np.isinf(decided)
        grown = update(statistics, reported[0], SERVED, reported[1])
        statistics = EffectStatistics(
            *(np.where(present, new, old) for new, old in zip(grown, statistics, strict=True))
        )
        for dataset in np.flatnonzero((statistics.evidence >= block.least_requirement).any(axis=1)):
            found = select_discoveries(statistics.evidence[dataset].tolist(), block)
            decided[dataset, found] = np.minimum(decided[dataset, found], session)
    return decided


def measure_false_decisions(datasets: int) -> Rows:
    """Return the share of datasets without effect that see a decision, and the false discoveries among effects."""
    none = (0.0,) * 30
    worlds = [
        SimulatedWorld("no effect, success .5", none),
        SimulatedWorld("no effect, success .02", none, (0.02, 0.02)),
        SimulatedWorld("no effect, success .98", none, (0.98, 0.98)),
        SimulatedWorld("no effect, success drifts .2 to .8", none, (0.2, 0.8)),
        SimulatedWorld("no effect, 30 % of reports missing", none, missing=0.3),
        SimulatedWorld("no effect, ten sessions in parallel", none, parallel=10),
        SimulatedWorld("no effect, served sessions teach all", none, (0.3, 0.3), teaching=0.0003),
        SimulatedWorld("5 of 30 add or cost 20 points", (0.2, -0.2, 0.2, -0.2, 0.2, *none[:25])),
    ]
    rows: Rows = []
    for number, world in enumerate(worlds):
        is_decided = np.isfinite(simulate(world, datasets, 2000, number))
        false = is_decided[:, [effect == 0.0 for effect in world.effects]].sum(axis=1)
        rate = (false / np.maximum(is_decided.sum(axis=1), 1)).mean()
        any_false = (false > 0).mean()
        rows.append(
            {
                "world": world.name,
                "datasets": datasets,
                "with a false decision": percent(any_false),
                "95 % interval": interval(int((false > 0).sum()), datasets),
                "false discovery rate": percent(rate),
            }
        )
        print(rows[-1], flush=True)
    return rows


def measure_sessions(datasets: int) -> Rows:
    """Return the median number of sessions until bullets with an effect are decided."""
    cases = [
        ("mistake avoided .60 to .95", 0.35, 0.6, True, 600, 120),
        ("success 20 points up or down", 0.2, 0.5, False, 3000, 560),
    ]
    rows: Rows = []
    for name, effect, base, own, sessions, goal in cases:
        effects = (effect,) * 5 if own else (effect, -effect, effect, -effect, effect)
        world = SimulatedWorld(name, (*effects, *(0.0,) * 25), (base, base), own_outcomes=own)
        decided = simulate(world, datasets // 4, sessions, 11)[:, :5]
        rows.append(sessions_row(name, "30, five with an effect", decided, goal))
    singles = [
        ("mistake avoided .60 to .95", 0.6, 0.95, 600, 65),
        ("success 20 points up", 0.4, 0.6, 2000, 300),
        ("success 10 points up (whole playbook)", 0.45, 0.55, 8000, 1350),
    ]
    for name, withheld, served, sessions, goal in singles:
        rows.append(sessions_row(name, "one", simulate_single(withheld, served, datasets, sessions), goal))
    for row in rows:
        print(row, flush=True)
    return rows


def measure_holdouts(runs: int) -> Rows:
    """Return the median sessions until one bullet is decided alone, and as the first of 30, by the share withheld."""
    cases = [
        ("mistake avoided .60 to .95", 0.6, 0.95),
        ("success 20 points up", 0.4, 0.6),
        ("success 10 points up", 0.45, 0.55),
    ]
    rows: Rows = []
    for name, withheld, served in cases:
        row = {"effect": name}
        for holdout in (0.05, 0.1, 0.25, 0.5):
            decided = [
                simulate_single(withheld, served, runs, 20_000, 1.0 - holdout, required)
                for required in (REQUIRED_ALONE, REQUIRED_AS_FIRST)
            ]
            row[f"{holdout:.0%} withheld"] = " / ".join(map(median, decided))
        rows.append(row)
        print(row, flush=True)
    return rows


def simulate_single(
    withheld: float, served: float, runs: int, sessions: int, share: float = SERVED, required: float = REQUIRED_ALONE
) -> Floats:
    """Return the session at which the evidence for one comparison, served with this share, is the required one."""
    random = np.random.default_rng(13)
    statistics = EffectStatistics(*(np.full(runs, value) for value in EffectStatistics()))
    decided = np.full(runs, np.inf)
    for session in range(1, sessions + 1):
        is_served = (random.random(runs) < share).astype(float)
        outcome = (random.random(runs) < np.where(is_served > 0, served, withheld)).astype(float)
        statistics = update(statistics, is_served, share, outcome)
        decided[(statistics.evidence >= np.log(required)) & np.isinf(decided)] = session
        if np.isfinite(decided).all():
            break
    return decided


def measure_drift(runs: int) -> Rows:
    """Return how soon a proven bullet goes back on trial when its effect turns, and how often it does without cause."""
    rows: Rows = []
    served = 1.0 - POLICY.audit_holdout
    for name, before, after in (
        ("+20 to -20 points", 0.2, -0.2),
        ("+20 points, steady", 0.2, 0.2),
        ("+20 points to none", 0.2, 0.0),
    ):
        random = np.random.default_rng(17)
        statistics = DriftStatistics(np.full(runs, 0.5), np.zeros(runs))
        alarm = np.full(runs, np.inf)
        for session in range(1, 3001):
            effect = before if session <= 1000 else after
            is_served = (random.random(runs) < served).astype(float)
            outcome = (random.random(runs) < 0.5 + effect * (is_served - 0.5)).astype(float)
            statistics = watch(statistics, is_served, served, outcome)
            alarm[(statistics.alarm >= ALARM_EVIDENCE) & np.isinf(alarm)] = session
        rows.append(
            {
                "effect": name,
                "runs": runs,
                "median sessions until on trial again": median(alarm - 1000),
                "before the change": percent((alarm <= 1000).mean()),
                "within 2,000 after it": percent((alarm < np.inf).mean()),
            }
        )
        print(rows[-1], flush=True)
    return rows


LOOKS = 25, 50, 100, 200, 500, 1000, 2000


def measure_intervals(runs: int) -> Rows:
    """Return how wide intervals are, and how often one misses the effect at any of forty looks.

    The other interval is the normal one of a difference of two rates, which promises 95 % for a single look only.
    """
    rows: Rows = []
    for base, effect in ((0.6, 0.35), (0.4, 0.2), (0.1, 0.05), (0.5, 0.0)):
        random = np.random.default_rng(19)
        statistics = EffectStatistics(*(np.full(runs, value) for value in EffectStatistics()))
        missed = {"ours": np.zeros(runs, bool), "normal": np.zeros(runs, bool)}
        widths: dict[int, str] = {}
        for session in range(1, LOOKS[-1] + 1):
            is_served = (random.random(runs) < SERVED).astype(float)
            outcome = (random.random(runs) < base + effect * is_served).astype(float)
            statistics = update(statistics, is_served, SERVED, outcome)
            if session % 50 and session not in LOOKS:
                continue
            intervals = {
                "ours": compute_interval(statistics, SERVED, ERROR),
                "normal": compute_normal_interval(statistics),
            }
            for name, (lower, upper) in intervals.items():
                missed[name] |= (lower > effect) | (upper < effect)
            if session in LOOKS:
                ours, normal = (np.median(upper - lower) for lower, upper in intervals.values())
                widths[session] = f"{ours:.2f} ({normal:.2f})"
        rows.append(
            {
                "rates": f"{base:.2f} to {base + effect:.2f}",
                **{f"{look:,}": widths[look] for look in LOOKS},
                "misses": percent(missed["ours"].mean()),
                "95 % interval": interval(int(missed["ours"].sum()), runs),
                "the normal one misses": percent(missed["normal"].mean()),
            }
        )
        print(rows[-1], flush=True)
    return rows


def compute_normal_interval(statistics: EffectStatistics) -> tuple[Floats, Floats]:
    """Return the interval of the difference of two rates that a normal approximation gives for one look."""
    arms = ((statistics.served, statistics.served_total), (statistics.withheld, statistics.withheld_total))
    rates = [total / np.maximum(sessions, 1.0) for sessions, total in arms]
    variances = [
        rate * (1.0 - rate) / np.maximum(sessions, 1.0) for rate, (sessions, _) in zip(rates, arms, strict=True)
    ]
    difference, half = rates[0] - rates[1], 1.96 * np.sqrt(sum(variances))
    return difference - half, difference + half


def sessions_row(name: str, bullets: str, decided: Floats, goal: int) -> dict[str, Any]:
    """Return the row of a median."""
    return {
        "effect": name,
        "bullets on trial": bullets,
        "median sessions": median(decided),
        "goal": goal,
        "decided in the end": percent(np.isfinite(decided).mean()),
    }


def median(values: Floats) -> str:
    """Return a median; infinite values count."""
    middle = float(np.median(values))
    return f"{middle:,.0f}" if np.isfinite(middle) else "none"


def percent(share: float) -> str:
    """Return a share as a percentage."""
    return f"{share:.1%}"


def interval(hits: int, total: int) -> str:
    """Return the Wilson interval of a share."""
    z, share = 1.96, hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * np.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return f"{max(middle - half, 0):.1%} to {middle + half:.1%}"


TABLES: dict[str, Callable[[int], Rows]] = {
    "sessions": measure_sessions,
    "holdouts": measure_holdouts,
    "drift": measure_drift,
    "intervals": measure_intervals,
    "rules": lambda datasets: measure_rules(datasets // 2),
    "false decisions": measure_false_decisions,
}


def main() -> None:
    """Simulate and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "tables", nargs="*", metavar="TABLE", help=f"a table to measure: {', '.join(TABLES)} (default: all)"
    )
    parser.add_argument("--datasets", type=int, default=1000)
    arguments = parser.parse_args()
    write_tables(HERE / "results.json", {name: TABLES[name](arguments.datasets) for name in arguments.tables or TABLES})


if __name__ == "__main__":
    main()
