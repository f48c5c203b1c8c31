"""Streams of steps for the measurement of the guarantee: how errors depend on scores, time, executions and tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.planner.domain.guarantee import CANDIDATES

STEPS = 4_000
BUCKET = 50
CHANGE = 2_000

Floats = NDArray[np.float64]
ErrorRate = Callable[[Floats, Floats], Floats]
"""(scores, times) -> the probability that each step is wrong."""


def draw_scores(rng: np.random.Generator, times: Floats) -> Floats:
    return rng.beta(6, 1.2, len(times))


def draw_falling_scores(rng: np.random.Generator, times: Floats) -> Floats:
    """Scores that fall from a mean of .92 to one of .67 while the time passes."""
    share = times / STEPS
    return rng.beta(12 - 8 * share, 1 + share)


def err_underconfident(scores: Floats, times: Floats) -> Floats:
    return np.asarray((1 - scores) ** 1.8)


def err_calibrated(scores: Floats, times: Floats) -> Floats:
    return 1 - scores


def make_constant(error: float, later: float | None = None) -> ErrorRate:
    after = error if later is None else later
    return lambda scores, times: np.where(times < CHANGE, error, after)


def shift_errors(base: ErrorRate, shift: Callable[[Floats], Floats]) -> ErrorRate:
    def rate(scores: Floats, times: Floats) -> Floats:
        clipped: Floats = np.clip(base(scores, times) + shift(times), 0, 1)
        return clipped

    return rate


def add_step(times: Floats) -> Floats:
    return np.asarray(0.35 * (times >= CHANGE), dtype=np.float64)


def ramp(times: Floats) -> Floats:
    return np.asarray(0.35 * np.clip((times - 1_000) / 2_000, 0, 1), dtype=np.float64)


def add_step_where_steps_pass(scores: Floats, times: Floats) -> Floats:
    """Errors rise where steps pass only, so the labels of steps that are asked anyway show nothing."""
    return np.asarray(err_underconfident(scores, times) + 0.35 * ((times >= CHANGE) & (scores >= CANDIDATES[-1])))


def make_passing_steps_wrong(scores: Floats, times: Floats) -> Floats:
    """After the change, all steps that may pass are wrong, and the labels of the others show nothing."""
    return np.where((times >= CHANGE) & (scores >= CANDIDATES[-1]), 1.0, err_underconfident(scores, times))


def draw_rising_scores(rng: np.random.Generator, times: Floats) -> Floats:
    """Scores whose distance from 1 halves at the change."""
    scores = draw_scores(rng, times)
    return np.where(times < CHANGE, scores, 1 - (1 - scores) / 2)


def err_overconfident_later(scores: Floats, times: Floats) -> Floats:
    """Errors of the steps do not change; after the change, the scores are too high."""
    return np.where(times < CHANGE, 1 - scores, np.clip(2 * (1 - scores), 0, 1))


def make_blocks(length: int) -> Callable[[Floats], Floats]:
    return lambda times: 0.35 * ((times // length) % 2 == 1)


@dataclass(frozen=True)
class Scenario:
    """A stream of steps.

    `execution_length` steps make one execution. `correlation`: intraclass correlation of the errors in an execution
    (1: all its steps have the same result). `missing`: share of labels that never come. `delay`: decisions after which
    a label comes at most; labels of wrong steps come last. `rare`: share of steps of a second tool, of which 80 % are
    wrong; `by_tool`: whether the rule learns for each tool by itself.
    """

    name: str
    error: ErrorRate
    scores: Callable[[np.random.Generator, Floats], Floats] = draw_scores
    execution_length: int = 1
    correlation: float = 0.0
    missing: float = 0.0
    delay: int = 0
    rare: float = 0.0
    by_tool: bool = True


@dataclass(frozen=True)
class Stream:
    """One run of a scenario, as columns."""

    scores: Floats
    wrong: NDArray[np.bool_]
    executions: NDArray[np.int64]
    tools: NDArray[np.int64]
    arrivals: NDArray[np.int64]
    """The step after which the label comes; -1: never."""


def draw(scenario: Scenario, rng: np.random.Generator) -> Stream:
    times = np.arange(STEPS, dtype=float)
    scores = scenario.scores(rng, times)
    tools = (rng.random(STEPS) < scenario.rare).astype(int)
    executions = (times // scenario.execution_length).astype(int)
    uniform = rng.random(STEPS)
    if scenario.correlation:
        # A step takes the number that its execution shares with this probability: the intraclass correlation of errors.
        shared = rng.random(STEPS)[executions]
        uniform = np.where(rng.random(STEPS) < np.sqrt(scenario.correlation), shared, uniform)
    wrong = uniform < error_rates(scenario, scores, times, tools)
    late = np.where(wrong, scenario.delay, rng.integers(0, scenario.delay // 2 + 1, STEPS))
    arrivals = np.where(rng.random(STEPS) < scenario.missing, -1, times + late).astype(int)
    return Stream(scores, wrong, executions, tools, arrivals)


def error_rates(scenario: Scenario, scores: Floats, times: Floats, tools: NDArray[np.int64]) -> Floats:
    return np.where(tools == 1, 0.8, scenario.error(scores, times))


def true_errors(scenario: Scenario, tool: int, sample: int = 20_000) -> list[list[float]]:
    """Return R(t) of each candidate in each `BUCKET` of steps; `tool` -1 is all tools together."""
    rng = np.random.default_rng(0)
    rows = []
    for bucket in range(STEPS // BUCKET):
        times = rng.integers(bucket * BUCKET, (bucket + 1) * BUCKET, sample).astype(float)
        scores = scenario.scores(rng, times)
        tools = (rng.random(sample) < scenario.rare).astype(int) if tool == -1 else np.full(sample, tool)
        rates = error_rates(scenario, scores, times, tools)
        rows.append([float(rates[scores >= t].mean()) for t in CANDIDATES])
    return rows


SCENARIOS = (
    Scenario("independent, underconfident", err_underconfident),
    Scenario("independent, calibrated", err_calibrated),
    Scenario("step of +35 points, underconfident", shift_errors(err_underconfident, add_step)),
    Scenario("step of +35 points, calibrated", shift_errors(err_calibrated, add_step)),
    Scenario("slow drift of +35 points, underconfident", shift_errors(err_underconfident, ramp)),
    Scenario("harder tasks, calibrated", err_calibrated, scores=draw_falling_scores),
    Scenario("alternating blocks of 250", shift_errors(err_underconfident, make_blocks(250))),
    Scenario("executions of 4 fail whole (15 %)", make_constant(0.15), execution_length=4, correlation=1.0),
    Scenario("executions of 12 fail whole (15 %)", make_constant(0.15), execution_length=12, correlation=1.0),
    Scenario("correlation .2, executions of 12, calibrated", err_calibrated, execution_length=12, correlation=0.2),
    Scenario("10 % of labels missing, underconfident", err_underconfident, missing=0.1),
    Scenario("30 % of labels missing, underconfident", err_underconfident, missing=0.3),
    Scenario("late labels, calibrated", err_calibrated, delay=60),
    Scenario("rare tool with 80 % errors", err_underconfident, rare=0.05),
    Scenario("rare tool, learned together", err_underconfident, rare=0.05, by_tool=False),
    Scenario("constant 3 %", make_constant(0.03)),
    Scenario("constant 5 %", make_constant(0.05)),
    Scenario("from 3 to 49 %", make_constant(0.03, 0.49)),
    Scenario("from 5 to 20 %", make_constant(0.05, 0.20)),
    Scenario("from 4 to 15 %", make_constant(0.04, 0.15)),
    Scenario("step of +35 points where steps pass", add_step_where_steps_pass),
    Scenario("all steps that pass become wrong", make_passing_steps_wrong),
    Scenario("scores become overconfident", err_overconfident_later, scores=draw_rising_scores),
)
