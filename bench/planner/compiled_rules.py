"""The rule of `services.planner.domain.guarantee` and `.labels` in compiled loops, so that 400 runs take a second.

It is written for speed and for one stream; `python -m bench.planner.guarantee` compares its decisions with those of
the product's classes, step by step, in several runs of each scenario, and fails if one differs.
"""

from __future__ import annotations

from math import log, log1p
from typing import Any

import numba
import numpy as np

from services.planner.domain import error_rates
from services.planner.domain import guarantee as rule
from services.planner.domain.labels import MAX_LATER_QUESTIONS

CANDIDATES = np.array(rule.CANDIDATES)
COUNT = len(CANDIDATES)
MAX_FRACTION, PRIOR_LABELS = rule._MAX_FRACTION, rule._PRIOR_LABELS
QUIET_AUDITS, QUIET_LABELS, PREDICTED_SHARE = rule._QUIET_AUDITS, rule._QUIET_LABELS, rule._PREDICTED_SHARE
FIRST_LEVEL_SHARE, STRICTEST_SHARE = rule._FIRST_LEVEL_SHARE, rule._STRICTEST_SHARE
LAG, RATE_PRIOR, MAX_ERROR = error_rates.LAG, error_rates.PRIOR_LABELS, error_rates.MAX_ERROR
HORIZON, UNSEEN_LABELS, MAX_EVIDENCE = error_rates.HORIZON, error_rates.UNSEEN_LABELS, error_rates.MAX_EVIDENCE
UNSEEN_WRONG = UNSEEN_LABELS * error_rates.UNSEEN_ERROR
RISES = np.array(error_rates.RISES)
DETECTOR_FRACTIONS = np.array(rule._DETECTOR_FRACTIONS)
LEVEL, BAND, MAX_RATE, WAIT = rule.REVOCATION_LEVEL, rule.MIN_BAND_LABELS, rule.MAX_RATE, MAX_LATER_QUESTIONS

# Columns of the evidence about a candidate.
WEALTH, SUM, SQUARE, PROVEN, BAND_LABELS, LABELS, WRONG_LABELS, DETECTORS = range(8)
COLUMNS = DETECTORS + len(DETECTOR_FRACTIONS)
# Values of a learner.
PASSED, REVOCATIONS, USED, SELECTED, HEAD, TAIL, LATEST, RISING = range(8)
VALUES = RISING + len(RISES)
# Columns of the error rates of the bands, and of the latest labels.
ALL_LABELS, ALL_WRONG, OLD_LABELS, OLD_WRONG, LATEST_BAND, LATEST_WRONG, WEIGHT, RATE_COLUMNS = range(8)
# States of an execution in the queue of a learner.
NONE, OPEN, OVERDUE, DONE = 0, 1, 2, 3


@numba.njit(cache=True)
def _forget(evidence: Any, first: int, alpha: float) -> None:
    wrong = alpha / 2
    evidence[first:] = 0.0
    evidence[first:, SUM] = PRIOR_LABELS * (alpha - wrong)
    evidence[first:, SQUARE] = PRIOR_LABELS * (wrong * (1 - alpha) ** 2 + (1 - wrong) * alpha**2)


@numba.njit(cache=True)
def _compute_alarm(evidence: Any, candidate: int) -> float:
    """Return the mean of the change detectors of a candidate threshold."""
    alarm: float = evidence[candidate, DETECTORS:].sum() / len(DETECTOR_FRACTIONS)
    return alarm


@numba.njit(cache=True)
def _find_band(score: float) -> int:
    band = 0
    while band < COUNT and score < CANDIDATES[band]:
        band += 1
    return band


@numba.njit(cache=True)
def _count_score(errors: Any, score: float, probability: float) -> None:
    """Add the score of a step that was selected to the recent ones."""
    remaining = (1 - 1 / HORIZON) ** (1 / probability)
    errors[: COUNT + 1, WEIGHT] *= remaining
    errors[_find_band(score), WEIGHT] += 1 - remaining


@numba.njit(cache=True)
def _count_label(errors: Any, values: Any, score: float, wrong: float, alpha: float) -> None:
    """Update the evidence that errors have become more frequent, and add the label that has become old enough."""
    band = _find_band(score)
    error = (errors[band, OLD_WRONG] + RATE_PRIOR * alpha) / (errors[band, OLD_LABELS] + RATE_PRIOR)
    for i in range(len(RISES)):
        higher = max(error, min(MAX_ERROR, error + RISES[i]))
        factor = higher / error if wrong else (1 - higher) / (1 - error)
        values[RISING + i] = (values[RISING + i] + 1) * factor
    row = int(values[LATEST]) % LAG
    if values[LATEST] >= LAG:
        old = int(errors[row, LATEST_BAND])
        errors[old, OLD_LABELS] += 1
        errors[old, OLD_WRONG] += errors[row, LATEST_WRONG]
    errors[row, LATEST_BAND], errors[row, LATEST_WRONG] = band, wrong
    values[LATEST] += 1
    errors[band, ALL_LABELS] += 1
    errors[band, ALL_WRONG] += wrong
    if values[RISING:].max() >= MAX_EVIDENCE:
        errors[:, ALL_LABELS] -= errors[:, OLD_LABELS]
        errors[:, ALL_WRONG] -= errors[:, OLD_WRONG]
        errors[:, OLD_LABELS] = errors[:, ALL_LABELS]
        errors[:, OLD_WRONG] = errors[:, ALL_WRONG]
        values[LATEST:] = 0.0


@numba.njit(cache=True)
def _find_cautious(evidence: Any, errors: Any, used: int, alpha: float) -> int:
    """Return the position of the lowest proven candidate whose predicted error is small enough; -1: there is none."""
    while used >= 0:
        if not evidence[used, PROVEN] or evidence[used, BAND_LABELS] < BAND:
            used -= 1
            continue
        total, wrong = 0.0, 0.0
        for band in range(used + 1):
            estimate = (errors[band, ALL_WRONG] + UNSEEN_WRONG) / (errors[band, ALL_LABELS] + UNSEEN_LABELS)
            wrong += errors[band, WEIGHT] * estimate
            total += errors[band, WEIGHT]
        if total == 0 or wrong / total <= PREDICTED_SHARE * alpha:
            return used
        used -= 1
    return used


@numba.njit(cache=True)
def _find_used(evidence: Any, values: Any, delta: float) -> None:
    revocations = values[REVOCATIONS]
    total = delta * FIRST_LEVEL_SHARE
    if revocations > 0:
        total = delta * (1 - FIRST_LEVEL_SHARE) / (revocations * (revocations + 1))
    level = total * STRICTEST_SHARE
    values[USED] = -1
    for k in range(COUNT):
        level += total * (1 - STRICTEST_SHARE) / COUNT
        if not evidence[k, PROVEN] and evidence[k, WEALTH] > 0 and evidence[k, WEALTH] >= -log(level):
            evidence[k, PROVEN] = 1
        if not evidence[k, PROVEN]:
            level = 0.0
        elif evidence[k, BAND_LABELS] >= BAND:
            values[USED] = k


@numba.njit(cache=True)
def _mean(scores: Any, wrong: Any, keep: Any, count: int, threshold: float, alpha: float) -> float:
    """Return y of the labels above a threshold; 2 if there are none."""
    above = np.zeros(count)
    n = 0
    lowest = 1.0
    for i in range(count):
        if scores[i] >= threshold:
            above[n] = i
            lowest = min(lowest, keep[i])
            n += 1
    if n == 0:
        return 2.0
    total = 0.0
    for i in range(n):
        row = int(above[i])
        weight = 1 / n
        if lowest != 1.0:
            counts = np.zeros(n + 1)
            counts[0] = 1.0
            others = 0
            for j in range(n):
                if j != i:
                    q = keep[int(above[j])]
                    others += 1
                    for m in range(others, 0, -1):
                        counts[m] = counts[m] * (1 - q) + counts[m - 1] * q
                    counts[0] *= 1 - q
            weight = 0.0
            for m in range(n):
                weight += counts[m] / (1 + m)
            weight *= keep[row]
        total += (alpha - wrong[row]) * weight
    return total


@numba.njit(cache=True)
def _prove(evidence: Any, values: Any, labels: Any, count: int, rate: float, alpha: float, delta: float) -> None:
    scores, wrong, probabilities = labels[0], labels[1], labels[2]
    keep = rate / probabilities[:count]
    upper = 2.0
    for k in range(COUNT):
        y = _mean(scores, wrong, keep, count, CANDIDATES[k], alpha)
        if y != 2.0:
            if evidence[k, SUM] > 0:
                bet = evidence[k, SUM] / (evidence[k, SQUARE] + evidence[k, SUM] * (1 - 2 * alpha))
                evidence[k, WEALTH] += log1p(min(bet, MAX_FRACTION / (1 - alpha)) * y)
            evidence[k, SUM] += y
            evidence[k, SQUARE] += y * y
        for i in range(count):
            if CANDIDATES[k] <= scores[i] < upper:
                evidence[k, BAND_LABELS] += 1
                break
        upper = CANDIDATES[k]
    _find_used(evidence, values, delta)


@numba.njit(cache=True)
def _watch(
    evidence: Any, values: Any, errors: Any, labels: Any, count: int, rate: float, alpha: float, delta: float
) -> bool:
    scores, wrong, probabilities = labels[0], labels[1], labels[2]
    for i in range(count):
        _count_label(errors, values, scores[i], wrong[i], alpha)
        for k in range(COUNT):
            if scores[i] >= CANDIDATES[k]:
                evidence[k, LABELS] += 1
                evidence[k, WRONG_LABELS] += wrong[i]
    if values[USED] < 0:
        return False
    keep = rate / probabilities[:count]
    for k in range(COUNT):
        y = _mean(scores, wrong, keep, count, CANDIDATES[k], alpha) if evidence[k, PROVEN] else 2.0
        if y != 2.0:
            for d in range(len(DETECTOR_FRACTIONS)):
                factor = 1 - DETECTOR_FRACTIONS[d] / alpha * y
                evidence[k, DETECTORS + d] = (evidence[k, DETECTORS + d] + 1) * factor
    for k in range(COUNT):
        if evidence[k, PROVEN] and _compute_alarm(evidence, k) >= LEVEL:
            values[REVOCATIONS] += 1
            _forget(evidence, k, alpha)
            values[LATEST:] = 0.0
            errors[:, :WEIGHT] = 0.0
            _find_used(evidence, values, delta)
            return True
    return False


@numba.njit(cache=True)
def _compute_audit_rate(evidence: Any, values: Any, used: int, min_rate: float, alpha: float, delta: float) -> float:
    """Return the share of passing steps that are labelled anyway; 1 if no candidate is in use."""
    if used < 0:
        return 1.0
    of_used = evidence[used]
    share = (of_used[WRONG_LABELS] + PRIOR_LABELS * alpha / 2) / (of_used[LABELS] + PRIOR_LABELS)
    rate = max(min_rate, min(MAX_RATE, -log(delta) / max(values[PASSED] * (alpha - share), 1.0)))
    in_audits = _compute_alarm(evidence, used) / QUIET_AUDITS
    return float(min(1.0, rate * max(1.0, in_audits, values[RISING:].max() / QUIET_LABELS) ** 2))


@numba.njit(cache=True)
def _collect(first: Any, execution: int, selected: Any, learner: int, steps: Any, labels: Any) -> tuple[int, bool]:
    """Copy the labels of an execution; return their number and whether none is missing."""
    count, whole = 0, True
    for step in range(first[execution], first[execution + 1]):
        if selected[step] == learner + 1:
            if steps[step, 2] < 0:
                whole = False
            else:
                labels[0, count], labels[1, count], labels[2, count] = steps[step, 0], steps[step, 2], steps[step, 1]
                count += 1
    return count, whole


@numba.njit(cache=True)
def decide_stream(
    scores: Any,
    wrong: Any,
    first: Any,
    learners: Any,
    arrivals: Any,
    coins: Any,
    learner_count: int,
    alpha: float,
    delta: float,
    min_rate: float,
) -> Any:
    """Return for each step whether it was asked, the position of the threshold then (-1: none), and the revocations.

    `first[e]` is the first step of execution e, and its last entry the number of steps.
    """
    steps_count, executions = len(scores), len(first) - 1
    trace = np.zeros((steps_count, 3), dtype=np.int64)
    evidence = np.zeros((learner_count, COUNT, COLUMNS))
    values = np.zeros((learner_count, VALUES))
    errors = np.zeros((learner_count, LAG, RATE_COLUMNS))
    for learner in range(learner_count):
        _forget(evidence[learner], 0, alpha)
        values[learner, USED] = -1
    queue = np.zeros((learner_count, executions), dtype=np.int64)
    state = np.zeros((learner_count, executions), dtype=np.int64)
    began = np.zeros((learner_count, executions))
    rates = np.ones((learner_count, executions))
    ended = np.zeros(executions, dtype=np.bool_)
    watched = np.zeros((learner_count, executions), dtype=np.bool_)
    void = np.zeros((learner_count, executions), dtype=np.bool_)
    selected = np.zeros(steps_count, dtype=np.int64)
    steps = np.full((steps_count, 3), -1.0)  # score, probability, label
    owner = np.zeros(steps_count, dtype=np.int64)
    order = np.argsort(arrivals, kind="mergesort")
    due = np.searchsorted(arrivals[order], 0)
    labels = np.zeros((3, 64))
    execution = 0

    for now in range(steps_count):
        if now == first[execution + 1]:
            execution += 1
        owner[now] = execution
        learner = learners[now]
        used = _find_cautious(evidence[learner], errors[learner], int(values[learner, USED]), alpha)
        rate = _compute_audit_rate(evidence[learner], values[learner], used, min_rate, alpha, delta)
        passes = used >= 0 and scores[now] >= CANDIDATES[used]
        trace[now, 1] = used
        # Each round handles one event: the selection, then the labels that arrive, then the end of the execution.
        event = 0
        if passes and coins[now] >= rate:
            event = 1
        else:
            trace[now, 0] = 1
        while event < 3:
            touched_execution, touched = execution, learner
            if event == 0:
                values[learner, SELECTED] += 1
                probability = rate if passes else 1.0
                values[learner, PASSED] += 1 / probability - 1
                _count_score(errors[learner], scores[now], probability)
                if state[learner, execution] != OVERDUE:
                    if state[learner, execution] == NONE:
                        state[learner, execution] = OPEN
                        began[learner, execution] = values[learner, SELECTED]
                        rates[learner, execution] = rate
                        queue[learner, int(values[learner, TAIL])] = execution
                        values[learner, TAIL] += 1
                    rates[learner, execution] = min(rates[learner, execution], rate)
                    selected[now] = learner + 1
                    steps[now, 0], steps[now, 1] = scores[now], probability
                event = 1
                lower, higher = learner, learner + 1
            elif event == 1:
                while due < steps_count and (arrivals[order[due]] < now or not trace[order[due], 0]):
                    if arrivals[order[due]] > now:
                        break
                    due += 1
                if due >= steps_count or arrivals[order[due]] != now:
                    event = 2
                    continue
                step = order[due]
                due += 1
                touched_execution, touched = owner[step], learners[step]
                if state[touched, touched_execution] != OPEN or selected[step] == 0:
                    continue
                steps[step, 2] = wrong[step]
                lower, higher = touched, touched + 1
            else:
                event = 3
                if now + 1 != first[execution + 1]:
                    continue
                ended[execution] = True
                lower, higher = 0, learner_count
            for member in range(lower, higher):
                if event == 3 and state[member, execution] == OVERDUE:
                    state[member, execution] = DONE
                if event == 3 and state[member, execution] != OPEN:
                    continue
                # Look for a change in an execution that has become complete.
                if state[member, touched_execution] == OPEN and ended[touched_execution]:
                    count, whole = _collect(first, touched_execution, selected, member, steps, labels)
                    if whole and not watched[member, touched_execution]:
                        watched[member, touched_execution] = True
                        block_rate = rates[member, touched_execution]
                        seen = errors[member]
                        if _watch(evidence[member], values[member], seen, labels, count, block_rate, alpha, delta):
                            void[member, :][state[member] == OPEN] = True
                # Prove with the executions at the head of the queue.
                while values[member, HEAD] < values[member, TAIL]:
                    head = queue[member, int(values[member, HEAD])]
                    count, whole = _collect(first, head, selected, member, steps, labels)
                    complete = whole and ended[head]
                    if values[member, SELECTED] - began[member, head] < WAIT and not complete:
                        break
                    values[member, HEAD] += 1
                    state[member, head] = DONE if ended[head] else OVERDUE
                    if count == 0:
                        continue
                    if not watched[member, head]:
                        watched[member, head] = True
                        block_rate, seen = rates[member, head], errors[member]
                        if _watch(evidence[member], values[member], seen, labels, count, block_rate, alpha, delta):
                            void[member, head] = True
                            void[member, :][state[member] == OPEN] = True
                    if not void[member, head]:
                        _prove(evidence[member], values[member], labels, count, rates[member, head], alpha, delta)
        trace[now, 2] = int(values[:, REVOCATIONS].sum())
    return trace


@numba.njit(cache=True)
def simulate_windowed_threshold(
    scores: Any, wrong: Any, arrivals: Any, coins: Any, audit_rate: float, alpha: float
) -> Any:
    """Return for each step whether it is selected for a label, the threshold in use, and the revocations so far.

    The threshold is the lowest one whose error was at most alpha in the last 200 labels, weighted by their selection.
    It is computed after each tenth label, from 20 labels on.
    """
    steps_count = len(scores)
    trace = np.zeros((steps_count, 3), dtype=np.int64)
    order = np.argsort(arrivals, kind="mergesort")
    due = np.searchsorted(arrivals[order], 0)
    window = np.zeros((200, 3))
    weights = np.ones(steps_count)
    used, count, revocations = -1, 0, 0
    for now in range(steps_count):
        passes = used >= 0 and scores[now] >= CANDIDATES[used]
        trace[now, 1] = used
        if not passes or coins[now] < audit_rate:
            trace[now, 0] = 1
            weights[now] = 1 / audit_rate if passes else 1.0
        while due < steps_count and arrivals[order[due]] <= now:
            step = order[due]
            due += 1
            if trace[step, 0] == 0:
                continue
            row_of_label = window[count % 200]
            row_of_label[0], row_of_label[1], row_of_label[2] = scores[step], wrong[step], weights[step]
            count += 1
            if count % 10:
                continue
            before, used = used, -1
            for k in range(COUNT):
                labels, errors, total = 0, 0.0, 0.0
                for row in window[: min(count, 200)]:
                    if row[0] >= CANDIDATES[k]:
                        labels += 1
                        errors += row[1] * row[2]
                        total += row[2]
                if labels >= 20 and errors <= alpha * total:
                    used = k
            revocations += before > used
        trace[now, 2] = revocations
    return trace
