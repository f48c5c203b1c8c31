"""Simulate ways to judge bullets while difficult tasks are served more bullets and fail more often.

Votes: the filter of search, (helpful + 1) / (helpful + harmful + 2) at least 0.3, where the outcome of each session is
its vote on the bullets that it was served. Welch: an observational test of the sessions with a bullet against those
without it, looked at after every 25 sessions, which retires a bullet at p < .05. Trials: this service. Known rates: the
same trials and the same requirement, for a test that knows how often sessions of each arm succeed. No other test that
sees only the assignment and the outcome of a session gathers evidence faster. Known chances: the same for a test that
knows the chance of each session with and without the bullet, so the difficulty of its task and the effects of all other
bullets. No valid test gathers evidence faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from services.evidence.domain.discoveries import find_block, select_discoveries
from services.evidence.domain.effects import EffectStatistics, estimate_effect, update
from services.evidence.domain.policy import TrialPolicy

SESSIONS = 1_000
LOOK_EVERY = 25
SMALLEST_ARM = 10
LOWEST_SCORE = 0.3
PILOT_DATASETS = 200
PILOT_SEED = 99
POLICY = TrialPolicy()
SERVED = 1.0 - POLICY.bullet_holdout

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class ConfoundedWorld:
    """Tasks of difficulty 0 to 1 that succeed at `easiest` less their difficulty; difficult tasks are served more.

    `helping` bullets add `effect` to the rate of success, as many cost it, `idle` ones change nothing. With
    `has_own_outcomes` the outcome of a bullet is its own mistake, made or avoided, not the success of the session.
    """

    name: str
    easiest: float
    effect: float
    helping: int = 3
    idle: int = 6
    least_eligible: float = 0.15
    """The share of the easiest tasks for which a bullet is eligible; it grows by .6 to the most difficult ones."""
    has_own_outcomes: bool = False

    @property
    def effects(self) -> Floats:
        """Return the effects of the bullets."""
        return np.array([self.effect] * self.helping + [-self.effect] * self.helping + [0.0] * self.idle)

    def compute_rates(self, difficulty: Floats, served: Booleans) -> Floats:
        """Return the rates of success, shape (datasets, 1), or (datasets, bullets) for outcomes of their own."""
        changes = served * self.effects
        change = changes if self.has_own_outcomes else changes.sum(axis=1, keepdims=True)
        return self._limit(self.easiest - difficulty + change)

    def compute_arms(self, difficulty: Floats, served: Booleans) -> tuple[Floats, Floats]:
        """Return the rates of success without and with each bullet, given the others, shape (datasets, bullets)."""
        changes = served * self.effects
        others = 0.0 if self.has_own_outcomes else changes.sum(axis=1, keepdims=True) - changes
        withheld = self.easiest - difficulty + others
        return self._limit(withheld), self._limit(withheld + self.effects)

    @staticmethod
    def _limit(rates: Floats) -> Floats:
        return np.clip(rates, 0.02, 0.98)


WORLDS = (
    ConfoundedWorld("most tasks succeed", 1.2, 0.2),
    ConfoundedWorld("half of the tasks succeed", 0.9, 0.2),
    ConfoundedWorld("most tasks fail", 0.6, 0.2),
    ConfoundedWorld("half of the tasks succeed, strong effects", 0.9, 0.35),
    ConfoundedWorld("success, thirty bullets, often eligible", 1.0, 0.2, 3, 24, 0.4),
    ConfoundedWorld("own mistakes, thirty bullets", 1.2, 0.35, 3, 24, has_own_outcomes=True),
)


class Votes:
    """The counters of search."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._helpful, self._votes = np.zeros(shape), np.zeros(shape)

    def choose(self, eligible: Booleans, random: np.random.Generator) -> Booleans:
        """Return the bullets to serve."""
        return eligible & ~self.is_retired()

    def record_session(self, eligible: Booleans, served: Booleans, outcome: Floats, difficulty: Floats) -> None:
        """Let the session vote on the bullets that it was served."""
        self._helpful += served * outcome
        self._votes += served

    def is_retired(self) -> Booleans:
        """Return the bullets that the filter hides."""
        retired: Booleans = (self._helpful + 1.0) / (self._votes + 2.0) < LOWEST_SCORE
        return retired


class Welch:
    """Welch's test of sessions with a bullet against all others, looked at again and again."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._counts = np.zeros((2, *shape))
        self._totals = np.zeros((2, *shape))
        self._sessions = 0
        self._retired = np.zeros(shape, bool)

    def choose(self, eligible: Booleans, random: np.random.Generator) -> Booleans:
        """Return the bullets to serve."""
        return eligible & ~self._retired

    def record_session(self, eligible: Booleans, served: Booleans, outcome: Floats, difficulty: Floats) -> None:
        """Count the session, and test after every `LOOK_EVERY` sessions."""
        self._sessions += 1
        for arm, members in enumerate((~served, served)):
            self._counts[arm] += members
            self._totals[arm] += members * outcome
        if self._sessions % LOOK_EVERY:
            return
        counts = np.maximum(self._counts, 2.0)
        means = self._totals / counts
        errors = means * (1.0 - means) * counts / (counts - 1.0) / counts
        error = np.maximum(errors.sum(axis=0), 1e-12)
        freedom = error**2 / np.maximum((errors**2 / (counts - 1.0)).sum(axis=0), 1e-24)
        value = (means[1] - means[0]) / np.sqrt(error)
        is_significant = 2.0 * stdtr(freedom, -np.abs(value)) < 0.05
        is_measured = self._counts.min(axis=0) >= SMALLEST_ARM
        self._retired |= is_measured & is_significant & (value < 0)

    def is_retired(self) -> Booleans:
        """Return the bullets that a test retired."""
        return self._retired


class Trials:
    """The decisions of this service."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._statistics = EffectStatistics(*(np.full(shape, value) for value in EffectStatistics()))
        self._decided = np.zeros(shape, bool)
        self._block = find_block(0, POLICY.false_discovery_rate)

    def choose(self, eligible: Booleans, random: np.random.Generator) -> Booleans:
        """Return the bullets to serve: withheld at random until decided."""
        coins = random.random(eligible.shape) < SERVED
        return eligible & np.where(self._decided, ~self.is_retired(), coins)

    def record_session(self, eligible: Booleans, served: Booleans, outcome: Floats, difficulty: Floats) -> None:
        """Measure the eligible bullets that are not decided."""
        grown = update(self._statistics, served.astype(float), SERVED, outcome)
        counts = eligible & ~self._decided
        pairs = zip(grown, self._statistics, strict=True)
        self._statistics = EffectStatistics(*(np.where(counts, new, old) for new, old in pairs))
        for dataset in np.flatnonzero(
            (counts & (self._statistics.evidence >= self._block.least_requirement)).any(axis=1)
        ):
            found = select_discoveries(self._statistics.evidence[dataset].tolist(), self._block)
            self._decided[dataset, found] = True

    def is_retired(self) -> Booleans:
        """Return the bullets that were decided as harmful."""
        retired: Booleans = self._decided & (estimate_effect(self._statistics) < 0)
        return retired


class KnownArms(Trials):
    """Trials with the most powerful test: the likelihood ratio of the true chances of success in both arms."""

    def __init__(self, shape: tuple[int, int], world: ConfoundedWorld) -> None:
        super().__init__(shape)
        self._world = world
        self._evidence = np.zeros(shape)

    def find_arms(self, served: Booleans, difficulty: Floats) -> tuple[Floats, Floats]:
        """Return the rates of success without and with each bullet in a session, shape (datasets, bullets)."""
        return self._world.compute_arms(difficulty, served)

    def record_session(self, eligible: Booleans, served: Booleans, outcome: Floats, difficulty: Floats) -> None:
        """Add the logarithm of the likelihood ratio of each eligible bullet that is not decided."""
        without, with_bullet = (
            np.where(outcome > 0.0, rate, 1.0 - rate) for rate in self.find_arms(served, difficulty)
        )
        ratio = np.where(served, with_bullet, without) / (SERVED * with_bullet + (1.0 - SERVED) * without)
        counts = eligible & ~self._decided
        self._evidence += np.where(counts, np.log(ratio), 0.0)
        for dataset in np.flatnonzero((counts & (self._evidence >= self._block.least_requirement)).any(axis=1)):
            found = select_discoveries(self._evidence[dataset].tolist(), self._block)
            self._decided[dataset, found] = True

    def is_retired(self) -> Booleans:
        """Return the bullets that were decided as harmful."""
        retired: Booleans = self._decided & (self._world.effects < 0.0)
        return retired


class KnownRates(KnownArms):
    """The same for a test that knows how often the sessions of both arms succeed, but no session's own chance."""

    def __init__(self, shape: tuple[int, int], world: ConfoundedWorld) -> None:
        super().__init__(shape, world)
        without, with_bullet = measure_rates(world)
        self._rates = without, with_bullet

    def find_arms(self, served: Booleans, difficulty: Floats) -> tuple[Floats, Floats]:
        """Return the same rates for every session, shape (bullets,)."""
        return self._rates


class Rates(Trials):
    """Trials that decide nothing and count the outcomes of both arms."""

    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__(shape)
        self.sessions = np.zeros((2, shape[1]))
        self.successes = np.zeros((2, shape[1]))

    def record_session(self, eligible: Booleans, served: Booleans, outcome: Floats, difficulty: Floats) -> None:
        """Count the session in the arm of each eligible bullet."""
        for arm, members in enumerate((eligible & ~served, eligible & served)):
            self.sessions[arm] += members.sum(axis=0)
            self.successes[arm] += (members * outcome).sum(axis=0)


def measure_rates(world: ConfoundedWorld) -> Floats:
    """Return how often sessions without and with each bullet succeed; bullets with one effect have one rate."""
    rule = Rates((PILOT_DATASETS, len(world.effects)))
    simulate(world, rule, PILOT_DATASETS, PILOT_SEED)
    rates = rule.successes / rule.sessions
    for effect in set(world.effects.tolist()):
        same = world.effects == effect
        rates[:, same] = rates[:, same].mean(axis=1, keepdims=True)
    rates[:, world.effects == 0.0] = rates[:, world.effects == 0.0].mean()
    return rates


def simulate(world: ConfoundedWorld, rule: Votes | Welch | Trials, datasets: int, seed: int) -> tuple[Booleans, float]:
    """Return the retired bullets after all sessions, shape (datasets, bullets), and the rate of success."""
    random = np.random.default_rng(seed)
    effects = world.effects
    succeeded = 0.0
    for _ in range(SESSIONS):
        difficulty = random.random((datasets, 1))
        eligible = random.random((datasets, len(effects))) < world.least_eligible + 0.6 * difficulty
        served = rule.choose(eligible, random)
        rates = world.compute_rates(difficulty, served)
        outcome = (random.random(rates.shape) < rates).astype(float)
        succeeded += float(outcome.mean())
        rule.record_session(eligible, served, outcome, difficulty)
    return rule.is_retired(), succeeded / SESSIONS


def measure_rules(datasets: int) -> list[dict[str, Any]]:
    """Return the decisions of each rule about bullets that help, harm and change nothing."""
    rows = []
    for number, world in enumerate(WORLDS):
        shape = datasets, len(world.effects)
        for name, rule in (
            ("votes", Votes(shape)),
            ("Welch, looked at daily", Welch(shape)),
            ("trials", Trials(shape)),
            ("trials, known rates", KnownRates(shape, world)),
            ("trials, known chances", KnownArms(shape, world)),
        ):
            retired, success = simulate(world, rule, datasets, number)
            without_cause = retired[:, world.effects >= 0.0].sum(axis=1) / np.maximum(retired.sum(axis=1), 1)
            rows.append(
                {
                    "world": world.name,
                    "rule": name,
                    "harmful bullets still served": f"{1.0 - retired[:, world.effects < 0].mean():.1%}",
                    "good bullets retired": f"{retired[:, world.effects > 0].mean():.1%}",
                    "others retired": f"{retired[:, world.effects == 0].mean():.1%}",
                    "retired without cause": f"{without_cause.mean():.1%}",
                    "sessions that succeed": f"{success:.1%}",
                }
            )
            print(rows[-1], flush=True)
    return rows
