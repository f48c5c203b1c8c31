"""Measure the promise of the mode `guaranteed`: ``python -m bench.planner.guarantee`` writes figures and a table.

Each run is a stream of steps (`bench.planner.promise`). The rule of the product decides and learns, in compiled loops
that are checked against `LabelQueue` and `ThresholdGuarantee` in the first runs of each scenario. Two trivial rules see
the same streams: a fixed threshold, and the lowest threshold of which a moving window of the last 200 audits has a mean
error of at most alpha.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.planner.least_asked import find_least_asked
from bench.planner.promise import BUCKET, CHANGE, SCENARIOS, STEPS, Floats, Scenario, Stream, draw, true_errors
from services.planner.domain.guarantee import CANDIDATES, ThresholdGuarantee
from services.planner.domain.labels import LabelQueue

ALPHA = DELTA = 0.10
MIN_RATE = 0.02
FIXED = 0.8
WINDOW_RATE = 0.1
CHECKED = 5
"""Runs of each scenario in which the compiled loops are compared with the product's classes."""
RESULTS = Path(__file__).with_name("guarantee.json")
PAGE = Path(__file__).with_name("guarantee.md")
MARK = "<!-- table -->"


Trace = NDArray[np.int64]


class ProductGuarantee:
    """The product."""

    def __init__(self) -> None:
        self.guarantee = ThresholdGuarantee(ALPHA, DELTA, min_rate=MIN_RATE)
        self._queue = LabelQueue(self.guarantee)

    @property
    def threshold(self) -> float | None:
        return self.guarantee.threshold

    @property
    def audit_rate(self) -> float:
        return self.guarantee.audit_rate

    @property
    def revocations(self) -> int:
        return self.guarantee.revocations

    def select(self, execution: int, step: int, score: float, probability: float) -> None:
        self._queue.select(str(execution), step, score, probability, self.audit_rate)

    def label(self, execution: int, step: int, wrong: bool) -> None:
        self._queue.label(str(execution), step, wrong)

    def end(self, execution: int) -> None:
        self._queue.end(str(execution))


RULES = ("guaranteed", "fixed .80", "window of 200")


@dataclass
class PromiseRun:
    """The figures of one run; those by tool are lists."""

    broken: list[bool]
    """For each tool: whether the mean true error of the thresholds under which steps passed ever exceeded alpha."""
    final_errors: list[float]
    """For each tool: the share of wrong steps among those that passed in the whole run."""
    asked_share: float
    asked_late: float
    revoked: int | None
    """Steps after the change until the first revocation."""
    revoked_before: bool


def decide_by_product(scenario: Scenario, stream: Stream, coins: Floats) -> Trace:
    """Return for each step whether it was asked, the position of the threshold then (-1: none), and the revocations."""
    rules = [ProductGuarantee() for _ in range(2 if scenario.rare and scenario.by_tool else 1)]
    due: dict[int, list[tuple[ProductGuarantee, int]]] = {}
    trace = np.zeros((STEPS, 3), dtype=np.int64)
    scores, wrong, executions = stream.scores.tolist(), stream.wrong.tolist(), stream.executions.tolist()
    arrivals, chances = stream.arrivals.tolist(), coins.tolist()
    for now in range(STEPS):
        used = rules[int(stream.tools[now]) % len(rules)]
        threshold, rate = used.threshold, used.audit_rate
        passes = threshold is not None and scores[now] >= threshold
        trace[now, 1] = -1 if threshold is None else CANDIDATES.index(threshold)
        if not passes or chances[now] < rate:
            trace[now, 0] = 1
            used.select(executions[now], now, scores[now], rate if passes else 1.0)
            if arrivals[now] >= 0:
                due.setdefault(arrivals[now], []).append((used, now))
        for learner, step in due.pop(now, ()):
            learner.label(executions[step], step, wrong[step])
        if now + 1 == STEPS or executions[now + 1] != executions[now]:
            for learner in rules:
                learner.end(executions[now])
        trace[now, 2] = sum(learner.revocations for learner in rules)
    return trace


def decide_trivially(rule: str, stream: Stream, coins: Floats) -> Trace:
    """Return the decisions of a trivial rule, which does not tell tools apart."""
    if rule == "window of 200":
        from bench.planner.compiled_rules import simulate_windowed_threshold  # compiles for seconds

        trace: Trace = simulate_windowed_threshold(
            stream.scores, stream.wrong, stream.arrivals, coins, WINDOW_RATE, ALPHA
        )
        return trace
    trace = np.zeros((STEPS, 3), dtype=np.int64)
    trace[:, 0] = stream.scores < FIXED
    trace[:, 1] = CANDIDATES.index(FIXED)
    return trace


def decide_compiled(scenario: Scenario, stream: Stream, coins: Floats) -> Trace:
    """Return the same for the product's rule, by compiled loops."""
    from bench.planner.compiled_rules import decide_stream  # compiles for seconds

    first = np.append(np.flatnonzero(np.diff(stream.executions, prepend=-1)), STEPS)
    learners = stream.tools if scenario.by_tool else np.zeros(STEPS, dtype=np.int64)
    count = int(learners.max()) + 1
    trace: Trace = decide_stream(
        stream.scores, stream.wrong, first, learners, stream.arrivals, coins, count, ALPHA, DELTA, MIN_RATE
    )
    return trace


def run(scenario: Scenario, rule: str, seed: int, errors: Floats) -> PromiseRun:
    """Run one stream. `errors[tool, bucket, candidate]` are the true errors."""
    rng = np.random.default_rng(seed)
    stream, coins = draw(scenario, rng), rng.random(STEPS)
    if rule == "guaranteed":
        trace = decide_compiled(scenario, stream, coins)
        if seed < CHECKED and not np.array_equal(trace, decide_by_product(scenario, stream, coins)):
            raise AssertionError(f"{scenario.name}, seed {seed}: the compiled loops and the product decide differently")
    else:
        trace = decide_trivially(rule, stream, coins)
    is_asked, used, revocations = trace[:, 0] == 1, trace[:, 1], trace[:, 2]
    times = np.arange(STEPS)
    broken, final = [], []
    for tool in range(len(errors)):
        passed = ~is_asked & (stream.tools == tool)
        risk = errors[tool][times[passed] // BUCKET, used[passed]]
        # A small tolerance, because errors of exactly alpha are drawn, too.
        broken.append(bool(np.any(np.cumsum(risk) > (ALPHA + 1e-9) * np.arange(1, len(risk) + 1))))
        final.append(float(stream.wrong[passed].mean()) if passed.any() else 0.0)
    later = np.flatnonzero(revocations[CHANGE:] > revocations[CHANGE - 1])
    return PromiseRun(
        broken,
        final,
        float(is_asked.mean()),
        float(is_asked[STEPS // 2 :].mean()),
        int(later[0]) if later.size else None,
        bool(revocations[CHANGE - 1]),
    )


def wilson(count: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Return the Wilson interval of a share."""
    share, square = count / of, z * z
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = z / (1 + square / of) * (share * (1 - share) / of + square / (4 * of * of)) ** 0.5
    return round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)


def oracle(scenario: Scenario, errors: Floats) -> float:
    """Return the share asked after half of the steps by the lowest candidate with a true error of at most alpha."""
    rng = np.random.default_rng(1)
    asked_shares = []
    for bucket in range(STEPS // 2 // BUCKET, STEPS // BUCKET):
        times = rng.integers(bucket * BUCKET, (bucket + 1) * BUCKET, 5_000).astype(float)
        scores = scenario.scores(rng, times)
        shares = [1 - scenario.rare, scenario.rare]
        for tool, rows in enumerate(errors):
            good = [t for t, error in zip(CANDIDATES, rows[bucket], strict=True) if error <= ALPHA]
            asked_shares.append((float(np.mean(scores < min(good))) if good else 1.0) * shares[tool] * len(errors))
    return float(np.mean(asked_shares))


def measure(scenario: Scenario, rule: str, runs: int) -> dict[str, Any]:
    """Return the figures of a rule in a scenario."""
    tools = 2 if scenario.rare else 1
    errors = np.array([true_errors(scenario, tool) for tool in range(tools)])
    found = [run(scenario, rule, seed, errors) for seed in range(runs)]
    broken = sum(any(r.broken) for r in found)
    before = sum(r.revoked_before for r in found)
    delays = [STEPS if r.revoked is None else r.revoked for r in found if not r.revoked_before]
    late, best = float(np.mean([r.asked_late for r in found])), oracle(scenario, errors)
    return {
        "scenario": scenario.name,
        "rule": rule,
        "runs": runs,
        "broken": broken,
        "broken interval": wilson(broken, runs),
        "wrong share above alpha at the end": sum(any(error > ALPHA for error in r.final_errors) for r in found),
        "error of passed steps": [round(float(np.mean([r.final_errors[t] for r in found])), 4) for t in range(tools)],
        "asked": round(float(np.mean([r.asked_share for r in found])), 4),
        "asked after half": round(late, 4),
        "oracle after half": round(best, 4),
        "possible after half": find_least_asked(scenario, ALPHA, DELTA),
        "revoked before the change": before,
        "revoked": sum(r.revoked_before or r.revoked is not None for r in found),
        "median delay": median(delays) if delays and median(delays) < STEPS else None,
    }


def measure_job(job: tuple[str, str, int]) -> dict[str, Any]:
    """Measure in a process of the pool, to which functions of scenarios cannot be sent."""
    name, rule, runs = job
    return measure(next(scenario for scenario in SCENARIOS if scenario.name == name), rule, runs)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the figures as a table, one line for each scenario and rule."""
    lines = [
        "| scenario | rule | promise broken (95 % interval) | wrong share above alpha at the end "
        "| error of unasked steps | asked | asked, 2nd half | oracle | possible "
        "| revoked before / at all | median delay |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row["broken interval"]
        of = row["runs"]
        cells = [
            row["scenario"],
            row["rule"],
            f"{row['broken']}/{of} ({low:.3f}-{high:.3f})",
            f"{row['wrong share above alpha at the end']}/{of}",
            " / ".join(f"{error:.3f}" for error in row["error of passed steps"]),
            f"{row['asked']:.3f}",
            f"{row['asked after half']:.3f}",
            f"{row['oracle after half']:.3f}",
            " + ".join(f"{share:.3f}" for share in row["possible after half"] or ()),
            f"{row['revoked before the change']} / {row['revoked']}",
            "" if row["median delay"] is None else f"{row['median delay']:g}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, write the file after each scenario, and put the table into the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--rules", nargs="*", default=list(RULES), choices=list(RULES))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--into", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="only write the table again")
    arguments = parser.parse_args()
    found = json.loads(arguments.into.read_text()) if arguments.into.exists() else []
    rows = {(row["scenario"], row["rule"]): row for row in found}
    order = [(scenario.name, rule) for scenario in SCENARIOS for rule in RULES]
    jobs = [(name, rule, arguments.runs) for name, rule in order if arguments.only in name and rule in arguments.rules]
    if not arguments.table:
        with ProcessPoolExecutor(arguments.processes) as pool:
            for row in pool.map(measure_job, jobs):
                rows[row["scenario"], row["rule"]] = row
                ordered = [rows[key] for key in order if key in rows]
                arguments.into.write_text(json.dumps(ordered, indent=1) + "\n")
                print(table([row]).splitlines()[-1], flush=True)
    if arguments.into == RESULTS:
        head, mark, _ = PAGE.read_text().partition(MARK)
        PAGE.write_text(f"{head}{mark}\n\n{table([rows[key] for key in order if key in rows])}")


if __name__ == "__main__":
    main()
