"""Compute how few steps a rule can ask that knows the probabilities of its stream, and keeps the promise.

No real rule knows them. Two kinds of questions remain:

- **Proof**: a threshold is used once it is proven with confidence 1 - delta, and until then all labels above it are
  known. Each execution is one bet on the mean of its labels, with the stake whose evidence grows fastest on average
  (Kelly). Each candidate has the whole delta, which a real rule must share among them.
- **Audits**: from any step on, all steps that pass may be wrong, and only audits show it. The promise is broken after
  k = credit / (1 - alpha) of them; the credit is the sum of alpha - error over the steps that passed before. The chance
  that none of them is audited is at most delta only at an audit rate of at least 1 - delta^(1 / k).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.planner.promise import BUCKET, STEPS, Floats, Scenario, Stream, draw, error_rates
from services.planner.domain.guarantee import CANDIDATES

RUNS = 200
_STAKE_RUNS = 50
_FIRST_SEED = 10_000
"""The seeds from here on choose the stakes; those of the runs are smaller."""
_STAKES = 200


def is_steady(scenario: Scenario) -> bool:
    """Return whether scores and errors do not change with time."""
    times = np.arange(0.0, STEPS, BUCKET)
    scores = [scenario.scores(np.random.default_rng(0), np.full(99, time)) for time in times]
    errors = [scenario.error(scores[0], np.full(99, time)) for time in times]
    return all(np.array_equal(values, columns[0]) for columns in (scores, errors) for values in columns)


def find_least_asked(scenario: Scenario, alpha: float, delta: float) -> tuple[float, float] | None:
    """Return the shares of the steps of the second half that thresholds and audits ask; None for a changing stream."""
    if not is_steady(scenario) or not scenario.by_tool:
        return None
    tools = range(2 if scenario.rare else 1)
    samples = [draw(scenario, np.random.default_rng(_FIRST_SEED + seed)) for seed in range(_STAKE_RUNS)]
    stakes = [[_find_stake(samples, tool, threshold, alpha) for threshold in CANDIDATES] for tool in tools]
    streams = (draw(scenario, np.random.default_rng(seed)) for seed in range(RUNS))
    shares = [[_ask(scenario, stream, tool, stakes[tool], alpha, delta) for tool in tools] for stream in streams]
    by_threshold, by_audit = np.mean(np.sum(shares, axis=1), axis=0)
    return round(float(by_threshold), 4), round(float(by_audit), 4)


def _find_stake(samples: Sequence[Stream], tool: int, threshold: float, alpha: float) -> float:
    """Return the stake whose evidence grows fastest on average, 0 if none grows."""
    bets = [_compute_means(stream, tool, threshold, alpha) for stream in samples]
    means = np.concatenate([of_executions[~np.isnan(of_executions)] for of_executions in bets])
    stakes = np.linspace(0, 1 / (1 - alpha), _STAKES, endpoint=False)
    growth = [float(np.mean(np.log1p(stake * (alpha - means)))) for stake in stakes]
    return float(stakes[int(np.argmax(growth))])


def _compute_means(stream: Stream, tool: int, threshold: float, alpha: float) -> Floats:
    """Return the mean of the labels above the threshold of each execution, NaN without one."""
    chosen = (stream.scores >= threshold) & (stream.tools == tool) & (stream.arrivals >= 0)
    executions = stream.executions[chosen]
    count = int(stream.executions[-1]) + 1
    labels = np.bincount(executions, minlength=count)
    wrong = np.bincount(executions, weights=stream.wrong[chosen], minlength=count)
    means: Floats = np.divide(wrong, labels, out=np.full(count, np.nan), where=labels > 0)
    return means


def _ask(
    scenario: Scenario, stream: Stream, tool: int, stakes: Sequence[float], alpha: float, delta: float
) -> tuple[float, float]:
    """Return the steps of a tool that thresholds and audits ask in the second half, as shares of all steps there."""
    own = stream.tools == tool
    used = np.full(STEPS, np.inf)
    for threshold, stake in zip(CANDIDATES, stakes, strict=True):
        means = _compute_means(stream, tool, threshold, alpha)
        proven_at = _find_proof(stream, means, stake, alpha, delta)
        used[proven_at + 1 :] = np.minimum(used[proven_at + 1 :], threshold)
    passes = own & (stream.scores >= used)
    rates = error_rates(scenario, stream.scores, np.zeros(STEPS), stream.tools)
    credit = np.cumsum(np.where(passes, alpha - _average_above(rates, stream, used, own), 0.0))
    audit_rates = np.where(credit > 0, 1 - delta ** ((1 - alpha) / np.maximum(credit, 1e-9)), 1.0)
    late = slice(STEPS // 2, None)
    return float((own & ~passes)[late].mean()), float((passes * audit_rates)[late].mean())


def _find_proof(stream: Stream, means: Floats, stake: float, alpha: float, delta: float) -> int:
    """Return the step at which the evidence of the executions reaches 1 / delta, the last one if it does not."""
    ends = np.zeros(len(means), dtype=np.int64)
    np.maximum.at(ends, stream.executions, np.maximum(stream.arrivals, np.arange(STEPS)))
    order = np.argsort(ends, kind="stable")
    evidence = np.cumsum(np.log1p(stake * (alpha - np.nan_to_num(means, nan=alpha)))[order])
    proofs = np.flatnonzero(evidence >= math.log(1 / delta))
    return int(ends[order][proofs[0]]) if stake and len(proofs) else STEPS - 1


def _average_above(rates: Floats, stream: Stream, used: Floats, own: Floats) -> Floats:
    """Return the mean error above the threshold in use at each step."""
    errors = np.zeros(STEPS)
    for threshold in set(used[np.isfinite(used)].tolist()):
        errors[used == threshold] = rates[own & (stream.scores >= threshold)].mean()
    return errors
