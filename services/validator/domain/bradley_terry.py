"""Strengths from comparisons: Bradley-Terry with terms for the position and the length of the shown submissions.

    logit P(first is preferred) = strength(first) - strength(second) + position + length * ln(first / second length)

R. Bradley and M. Terry (1952); a tie counts as half a win for each. Fitted by maximum likelihood (Newton's method).
Intervals are by the cluster-robust sandwich with tasks as clusters (Liang and Zeger 1986), with leverage correction CR3
(Bell and McCaffrey 2002) and Student's t with one degree of freedom less than there are tasks; with a single task,
where no such estimate exists, by the information matrix and the normal distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from services.validator.domain.comparisons import Comparison, ComparisonRanking, Preference, RankingOptions, Rating
from services.validator.domain.errors import NotIdentifiable

Array = NDArray[np.float64]

MAX_STEPS = 100
PRECISE = 1e-10
SINGULAR = 1e-12
"""Ratio of the least to the greatest eigenvalue of the information below which a parameter is not determined."""
BISECTIONS = 60
MANY_TASKS = 100
"""Beyond this the leverage of one task is negligible, and correcting for it is only slow."""

_SHARE = {Preference.FIRST: 1.0, Preference.SECOND: 0.0, Preference.TIE: 0.5}


def rank_comparisons(comparisons: Sequence[Comparison], options: RankingOptions) -> ComparisonRanking:
    """Rank all contestants. Raises NotIdentifiable if the comparisons do not determine every parameter."""
    measured = [comparison for comparison in comparisons if comparison.preference is not Preference.UNMEASURED]
    ids = sorted({name for item in comparisons for name in (item.first_id, item.second_id)})
    if not measured:
        raise NotIdentifiable("no comparison has an answer")
    design = _build_design(measured, ids, options)
    _refuse_unconnected(design, ids)
    parameters = _maximize_likelihood(design)
    strengths = (design.basis @ parameters)[: len(ids)]
    spread = _compute_deviations(design, parameters)[: len(ids)]
    spread *= _compute_quantile(design, options.confidence_level)
    extra = list(parameters[len(ids) - 1 :])
    order = sorted(range(len(ids)), key=lambda index: (-round(float(strengths[index]), 9), ids[index]))
    return ComparisonRanking(
        tuple(
            Rating(
                ids[index],
                float(strengths[index]),
                float(strengths[index] - spread[index]),
                float(strengths[index] + spread[index]),
                rank,
            )
            for rank, index in enumerate(order, 1)
        ),
        float(extra.pop(0)) if options.position_term else None,
        float(extra.pop(0)) if options.length_term else None,
        len(measured),
        len(comparisons) - len(measured),
    )


@dataclass(frozen=True, slots=True)
class _Design:
    """Comparisons as indices of contestants, because a matrix with a column for each of them would mostly be zeros.

    `basis` maps the free parameters to all strengths, whose sum is 0, followed by position and length.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    terms: Array
    shares: Array
    clusters: NDArray[np.int64]
    basis: Array

    @property
    def contestants(self) -> int:
        """Return the number of contestants."""
        return len(self.basis) - len(self.terms[0])

    def compute_logits(self, parameters: Array) -> Array:
        """Return the log-odds of each comparison that its first submission is preferred."""
        effects = self.basis @ parameters
        result: Array = effects[self.first] - effects[self.second] + self.terms @ effects[self.contestants :]
        return result

    def compute_chances(self, parameters: Array) -> Array:
        """Return the probability of each comparison that its first submission is preferred."""
        # The hyperbolic tangent does not overflow.
        result: Array = 0.5 * (1 + np.tanh(0.5 * self.compute_logits(parameters)))
        return result

    def compute_scores(self, chance: Array, groups: NDArray[np.int64]) -> Array:
        """Return the gradient of the log-likelihood of each group of comparisons, one row for each."""
        residual = self.shares - chance
        scores = np.zeros((int(groups.max()) + 1, len(self.basis)))
        np.add.at(scores, (groups, self.first), residual)
        np.add.at(scores, (groups, self.second), -residual)
        np.add.at(scores[:, self.contestants :], groups, self.terms * residual[:, None])
        result: Array = scores @ self.basis
        return result

    def compute_information(self, chance: Array, chosen: NDArray[np.bool_] | slice = slice(None)) -> Array:
        """Return the information matrix of the chosen comparisons."""
        first, second, terms = self.first[chosen], self.second[chosen], self.terms[chosen]
        weights = (chance * (1 - chance))[chosen]
        weighted = terms * weights[:, None]
        contestants = self.contestants
        total = np.zeros((len(self.basis), len(self.basis)))
        for row, column, sign in ((first, first, 1), (second, second, 1), (first, second, -1), (second, first, -1)):
            np.add.at(total, (row, column), sign * weights)
        np.add.at(total[:, contestants:], first, weighted)
        np.subtract.at(total[:, contestants:], second, weighted)
        total[contestants:, :contestants] = total[:contestants, contestants:].T
        total[contestants:, contestants:] = terms.T @ weighted
        result: Array = self.basis.T @ total @ self.basis
        return result


def _build_design(comparisons: Sequence[Comparison], ids: Sequence[str], options: RankingOptions) -> _Design:
    index_of = {name: index for index, name in enumerate(ids)}
    columns = []
    if options.position_term:
        columns.append([1.0] * len(comparisons))
    if options.length_term:
        columns.append([math.log((item.first_length + 1) / (item.second_length + 1)) for item in comparisons])
    names = {name: index for index, name in enumerate(dict.fromkeys(_name_clusters(comparisons)))}
    basis = np.eye(len(ids) + len(columns), len(ids) - 1 + len(columns), -1)
    basis[: len(ids), : len(ids) - 1] = _build_contrast(len(ids))
    return _Design(
        np.array([index_of[item.first_id] for item in comparisons]),
        np.array([index_of[item.second_id] for item in comparisons]),
        np.array(columns).reshape(len(columns), len(comparisons)).T,
        np.array([_SHARE[item.preference] for item in comparisons]),
        np.array([names[name] for name in _name_clusters(comparisons)]),
        basis,
    )


def _name_clusters(comparisons: Sequence[Comparison]) -> list[str]:
    return [f"task {item.task_id}" if item.task_id else f"row {row}" for row, item in enumerate(comparisons)]


def _build_contrast(count: int) -> Array:
    """Return an orthonormal basis of the vectors that sum to 0 (Helmert's)."""
    basis = np.zeros((count, count - 1))
    for column in range(count - 1):
        basis[: column + 1, column] = 1.0
        basis[column + 1, column] = -(column + 1.0)
        basis[:, column] /= math.sqrt((column + 1.0) * (column + 2.0))
    return basis


def _refuse_unconnected(design: _Design, ids: Sequence[str]) -> None:
    everyone = np.concatenate([design.first, design.second]), np.concatenate([design.second, design.first])
    unconnected = _find_unreachable(len(ids), *everyone)
    if unconnected is not None:
        raise NotIdentifiable(
            f"the comparisons do not determine the ranking: '{ids[0]}' and '{ids[unconnected]}' were never compared, "
            "not even through others"
        )


def _find_unreachable(count: int, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> int | None:
    """Return the first of `count` nodes that no path from node 0 reaches."""
    successors: list[set[int]] = [set() for _ in range(count)]
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        successors[source].add(target)
    reached, pending = {0}, [0]
    while pending:
        discovered = successors[pending.pop()] - reached
        reached |= discovered
        pending.extend(discovered)
    return next((node for node in range(count) if node not in reached), None)


def _is_dominated(design: _Design) -> bool:
    """Return whether some contestants lost every comparison with the others (L. Ford 1957).

    That is so unless a path of wins, where a tie is a win for each side, leads from one contestant to all, and back.
    """
    won, lost = design.shares > 0, design.shares < 1
    winners = np.concatenate([design.first[won], design.second[lost]])
    losers = np.concatenate([design.second[won], design.first[lost]])
    count = design.contestants
    return any(_find_unreachable(count, *edges) is not None for edges in ((winners, losers), (losers, winners)))


def _maximize_likelihood(design: _Design) -> Array:
    """Return the parameters by Newton's method. Raises NotIdentifiable if there is no single, finite maximum."""
    parameters = np.zeros(design.basis.shape[1])
    everything = np.zeros(len(design.shares), dtype=np.int64)
    chance = design.compute_chances(parameters)
    information = design.compute_information(chance)
    if _is_singular(information):
        raise NotIdentifiable(
            "the comparisons do not determine the ranking: strengths, position and length cannot be distinguished; "
            "compare each pair in both orders, or leave a term out"
        )
    # Without a finite maximum (A. Albert and J. Anderson 1984) the odds grow with each step until the information
    # vanishes.
    is_infinite = _is_dominated(design)
    for _ in range(MAX_STEPS):
        if is_infinite or _is_singular(information):
            break
        step = np.linalg.solve(information, design.compute_scores(chance, everything)[0])
        # Far from the maximum a full Newton step may overshoot; this keeps odds from changing more than e^2-fold.
        largest = float(np.abs(design.compute_logits(step)).max())
        parameters = parameters + step * min(1.0, 2.0 / largest if largest > 0 else 1.0)
        if largest < PRECISE:
            return parameters
        chance = design.compute_chances(parameters)
        information = design.compute_information(chance)
    raise NotIdentifiable(
        "the comparisons do not determine the ranking: some contestants or terms win every comparison, so their "
        "strength has no finite estimate; add comparisons or tasks"
    )


def _is_singular(information: Array) -> bool:
    eigenvalues = np.linalg.eigvalsh(information)
    return bool(eigenvalues[0] <= SINGULAR * eigenvalues[-1])


def _compute_deviations(design: _Design, parameters: Array) -> Array:
    """Return the standard errors of the strengths, position and length."""
    chance = design.compute_chances(parameters)
    information = design.compute_information(chance)
    inverse = np.linalg.inv(information)
    covariance = inverse
    if design.clusters.max() > 0:
        covariance = inverse @ _compute_meat(design, chance, information) @ inverse
    variances = np.einsum("ij,ij->i", design.basis @ covariance, design.basis)
    result: Array = np.sqrt(np.clip(variances, 0.0, None))
    return result


def _compute_meat(design: _Design, chance: Array, information: Array) -> Array:
    """Return the sum of the outer products of the tasks' scores; few tasks are corrected by leave-one-out (CR3)."""
    scores = design.compute_scores(chance, design.clusters)
    correction = len(scores) / (len(scores) - 1)
    if len(scores) <= MANY_TASKS:
        scores = np.array([_correct_score(design, chance, information, *pair) for pair in enumerate(scores)])
        correction = 1 / correction
    result: Array = correction * scores.T @ scores
    return result


def _correct_score(design: _Design, chance: Array, information: Array, cluster: int, score: Array) -> Array:
    """Return the score of a task, corrected for the task's influence on the fit (CR3)."""
    without = information - design.compute_information(chance, design.clusters == cluster)
    # Least squares, as the other tasks alone may not determine everything.
    result: Array = information @ np.linalg.lstsq(without, score, rcond=None)[0]
    return result


def _compute_quantile(design: _Design, level: float) -> float:
    tasks = int(design.clusters.max()) + 1
    return compute_student_quantile(0.5 + level / 2, tasks - 1) if tasks > 1 else NormalDist().inv_cdf(0.5 + level / 2)


def compute_student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution, for a probability above 1/2, by bisection of its angle."""
    low, high = 0.0, math.pi / 2
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if 0.5 + _compute_student_half(middle, freedom) / 2 < probability:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _compute_student_half(angle: float, freedom: int) -> float:
    """Return P(|t| < sqrt(freedom) tan(angle)) by the finite series (M. Abramowitz and I. Stegun 1964, 26.7.3-4)."""
    is_odd = freedom % 2 == 1
    cosine = math.cos(angle)
    term = cosine if is_odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(2 + is_odd, freedom, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    return 2 / math.pi * (angle + math.sin(angle) * total) if is_odd else math.sin(angle) * total
