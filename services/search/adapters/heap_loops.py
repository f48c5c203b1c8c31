"""The loops of `CompiledKernels` that pick the best of many, each with a heap of the best so far."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import numpy as np

from services.search.adapters.loops import compiled

_compiled = compiled()


@_compiled
def highest(scores, masked, mask, count):
    """`Kernels.highest`. A heap whose root is the lowest of the highest so far; the first of equals stay."""
    limit = min(count, len(scores))
    kept = np.full(limit, -np.inf)
    rows = np.full(limit, -1, np.int64)
    for row in range(len(scores)):
        score = scores[row]
        if score <= kept[0] or (masked and not mask[row]):
            continue
        place = 0
        while True:
            child = 2 * place + 1
            if child >= limit:
                break
            if child + 1 < limit and kept[child + 1] < kept[child]:
                child += 1
            if kept[child] >= score:
                break
            kept[place], rows[place] = kept[child], rows[child]
            place = child
        kept[place], rows[place] = score, row
    return rows[rows >= 0]


@_compiled
def top(scores, order, masked, mask, count):
    """The admitted rows with the highest scores, best first, ties by `order`."""
    limit = min(count, len(scores))
    # A heap whose root is the worst of the best so far: lower score, or later in order.
    kept = np.empty(limit)
    rows = np.empty(limit, np.int64)
    size = 0
    for row in range(len(scores)):
        score = scores[row]
        if (size == limit and score < kept[0]) or (masked and not mask[row]):
            continue
        if size < limit:
            place = size
            size += 1
            while place > 0:
                parent = (place - 1) >> 1
                if not _worse(score, order[row], kept[parent], order[rows[parent]]):
                    break
                kept[place], rows[place] = kept[parent], rows[parent]
                place = parent
            kept[place], rows[place] = score, row
        elif _worse(kept[0], order[rows[0]], score, order[row]):
            _sink(kept, rows, order, size, score, row)
    best_first = np.empty(size, np.int64)
    for place in range(size - 1, -1, -1):
        best_first[place] = rows[0]
        _sink(kept, rows, order, place, kept[place], rows[place])
    return best_first


@_compiled
def _worse(score, position, other_score, other_position):
    return score < other_score or (score == other_score and position > other_position)


@_compiled
def _sink(scores, rows, order, size, score, row):
    """Put (score, row) in place of the heap's root."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        other = child + 1
        if other < size and _worse(scores[other], order[rows[other]], scores[child], order[rows[child]]):
            child = other
        if not _worse(scores[child], order[rows[child]], score, order[row]):
            break
        scores[place], rows[place] = scores[child], rows[child]
        place = child
    scores[place], rows[place] = score, row
