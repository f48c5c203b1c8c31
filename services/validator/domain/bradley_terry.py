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
SEPARABLE = 1e-7
"""Residual per answer, of rows of length 1, beyond which no weights cancel out."""
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
    design = _build_design_matrix(measured, ids, options)
    _refuse_unidentifiable(design, ids, measured)
    parameters = _maximize_likelihood(design)
    strengths = design.contrast @ parameters[: len(ids) - 1]
    spread = _compute_deviations(design, parameters, len(ids)) * _compute_quantile(design, options.confidence_level)
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
    """Rows are comparisons, columns free parameters: strengths in the basis `contrast`, then position, then length."""

    rows: Array
    shares: Array
    clusters: NDArray[np.int64]
    contrast: Array


def _build_design_matrix(comparisons: Sequence[Comparison], ids: Sequence[str], options: RankingOptions) -> _Design:
    column_of = {name: index for index, name in enumerate(ids)}
    difference = np.zeros((len(comparisons), len(ids)))
    for row, item in enumerate(comparisons):
        difference[row, column_of[item.first_id]] = 1.0
        difference[row, column_of[item.second_id]] = -1.0
    contrast = _contrast(len(ids))
    columns = [difference @ contrast]
    if options.position_term:
        columns.append(np.ones((len(comparisons), 1)))
    if options.length_term:
        ratios = [math.log((item.first_length + 1) / (item.second_length + 1)) for item in comparisons]
        columns.append(np.array(ratios).reshape(-1, 1))
    shares = np.array([_SHARE[item.preference] for item in comparisons])
    names = {name: index for index, name in enumerate(dict.fromkeys(_cluster_names(comparisons)))}
    clusters = np.array([names[name] for name in _cluster_names(comparisons)])
    return _Design(np.hstack(columns), shares, clusters, contrast)


def _cluster_names(comparisons: Sequence[Comparison]) -> list[str]:
    return [f"task {item.task_id}" if item.task_id else f"row {row}" for row, item in enumerate(comparisons)]


def _contrast(count: int) -> Array:
    """Return an orthonormal basis of the vectors that sum to 0 (Helmert's)."""
    basis = np.zeros((count, count - 1))
    for column in range(count - 1):
        basis[: column + 1, column] = 1.0
        basis[column + 1, column] = -(column + 1.0)
        basis[:, column] /= math.sqrt((column + 1.0) * (column + 2.0))
    return basis


def _refuse_unidentifiable(design: _Design, ids: Sequence[str], measured: Sequence[Comparison]) -> None:
    if np.linalg.matrix_rank(design.rows) < design.rows.shape[1]:
        unconnected = _find_unconnected(ids, measured)
        detail = (
            f"'{unconnected[0]}' and '{unconnected[1]}' were never compared, not even through others"
            if unconnected
            else (
                "strengths, position and length cannot be distinguished; compare each pair in both orders, "
                "or leave a term out"
            )
        )
        raise NotIdentifiable(f"the comparisons do not determine the ranking: {detail}")
    if _is_separable(design):
        raise NotIdentifiable(
            "the comparisons do not determine the ranking: some contestants or terms win every comparison, so their "
            "strength has no finite estimate; add comparisons or tasks"
        )


def _find_unconnected(ids: Sequence[str], measured: Sequence[Comparison]) -> tuple[str, str] | None:
    group = {name: name for name in ids}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for item in measured:
        group[root(item.first_id)] = root(item.second_id)
    other = next((name for name in ids if root(name) != root(ids[0])), None)
    return None if other is None else (ids[0], other)


def _is_separable(design: _Design) -> bool:
    """Return whether the likelihood has no finite maximum (A. Albert and J. Anderson 1984).

    That is so if some direction makes no answer less likely and one more likely. By Stiemke's lemma there is none
    exactly if positive weights of the answers cancel out, `rows.T @ weights == 0`; a tie is an answer for each side.
    """
    signs = 2 * design.shares[design.shares != 0.5] - 1
    decided = design.rows[design.shares != 0.5] * signs[:, None]
    tied = design.rows[design.shares == 0.5]
    rows = np.unique(np.vstack([decided, tied, -tied]), axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    # Weights of at least 1, which is no restriction: they may all be multiplied.
    target = -rows.sum(axis=0)
    residual = rows.T @ solve_nonnegative_least_squares(rows.T, target) - target
    return bool(np.linalg.norm(residual) > SEPARABLE * len(rows))


def solve_nonnegative_least_squares(matrix: Array, target: Array) -> Array:
    """Return the `x >= 0` with the least `|matrix @ x - target|` (C. Lawson and R. Hanson 1974, chapter 23)."""
    solution = np.zeros(matrix.shape[1])
    passive = np.zeros(matrix.shape[1], dtype=bool)
    for _ in range(3 * matrix.shape[1]):
        gradient = np.where(passive, -np.inf, matrix.T @ (target - matrix @ solution))
        if passive.all() or gradient.max() <= PRECISE:
            break
        passive[gradient.argmax()] = True
        while True:
            candidate = np.zeros_like(solution)
            candidate[passive] = np.linalg.lstsq(matrix[:, passive], target, rcond=None)[0]
            blocking = passive & (candidate <= 0)
            if not blocking.any():
                break
            steps = solution[blocking] / (solution[blocking] - candidate[blocking])
            solution += steps.min() * (candidate - solution)
            passive &= solution > PRECISE
        solution = np.where(passive, candidate, 0.0)
    return solution


def _maximize_likelihood(design: _Design) -> Array:
    parameters = np.zeros(design.rows.shape[1])
    for _ in range(MAX_STEPS):
        chance = _compute_logistic(design.rows @ parameters)
        gradient = design.rows.T @ (design.shares - chance)
        step = np.linalg.solve(_compute_information(design.rows, chance), gradient)
        # Far from the maximum a full Newton step may overshoot; this keeps odds from changing more than e^2-fold.
        largest = float(np.abs(design.rows @ step).max())
        parameters = parameters + step * min(1.0, 2.0 / largest if largest > 0 else 1.0)
        if largest < PRECISE:
            return parameters
    raise NotIdentifiable("the comparisons do not determine the ranking: add comparisons that connect all contestants")


def _compute_logistic(logits: Array) -> Array:
    # The hyperbolic tangent does not overflow.
    result: Array = 0.5 * (1 + np.tanh(0.5 * logits))
    return result


def _compute_information(rows: Array, chance: Array) -> Array:
    result: Array = (rows * (chance * (1 - chance))[:, None]).T @ rows
    return result


def _compute_deviations(design: _Design, parameters: Array, contestants: int) -> Array:
    """Return the standard errors of the strengths."""
    chance = _compute_logistic(design.rows @ parameters)
    information = _compute_information(design.rows, chance)
    inverse = np.linalg.inv(information)
    covariance = inverse
    clusters = np.unique(design.clusters)
    if len(clusters) > 1:
        covariance = inverse @ _compute_meat(design, chance, information, clusters) @ inverse
    strengths = design.contrast @ covariance[: contestants - 1, : contestants - 1] @ design.contrast.T
    result: Array = np.sqrt(np.clip(np.diag(strengths), 0.0, None))
    return result


def _compute_meat(design: _Design, chance: Array, information: Array, clusters: NDArray[np.int64]) -> Array:
    """Return the sum of the outer products of the tasks' scores; few tasks are corrected by leave-one-out (CR3)."""
    scores = np.zeros((len(clusters), design.rows.shape[1]))
    np.add.at(scores, design.clusters, design.rows * (design.shares - chance)[:, None])
    correction = len(clusters) / (len(clusters) - 1)
    if len(clusters) <= MANY_TASKS:
        scores = np.array([_correct_score(design, chance, information, *pair) for pair in enumerate(scores)])
        correction = 1 / correction
    result: Array = correction * scores.T @ scores
    return result


def _correct_score(design: _Design, chance: Array, information: Array, cluster: int, score: Array) -> Array:
    """Return the score of a task, corrected for the task's influence on the fit (CR3)."""
    mine = design.clusters == cluster
    without = information - _compute_information(design.rows[mine], chance[mine])
    # Least squares, as the other tasks alone may not determine everything.
    result: Array = information @ np.linalg.lstsq(without, score, rcond=None)[0]
    return result


def _compute_quantile(design: _Design, level: float) -> float:
    tasks = len(np.unique(design.clusters))
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
