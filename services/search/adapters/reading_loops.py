"""The loops of `CompiledKernels` that read, compiled by numba: plain numbers and arrays in and out, no GIL.

The compiled code is cached beside this file.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from services.search.domain.coarse import LARGEST_CODE
from services.search.domain.fusion import EQUAL_WITHIN

_Loop = Callable[[Callable[..., Any]], Callable[..., Any]]
_compiled: _Loop = njit(cache=True, nogil=True)
# No value is NaN here, which lets the compiler use vector instructions; the order of operations stays.
_vectorised: _Loop = njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
# Sums in any order: equal rows still give equal bits.
_reordered: _Loop = njit(cache=True, nogil=True, fastmath=True)

# What float32 rounding may add to a product of unit vectors.
ROUNDING = 2e-6
LARGEST_INT32 = 2**31 - 1


@_compiled
def idf(list_rows, regions, rows, masked, mask, total, floored):
    """`Kernels.idf`."""
    idf = np.zeros(len(regions))
    for i in range(len(regions)):
        start = regions[i, 0]
        end = start + regions[i, 1]
        while end > start and list_rows[end - 1] >= rows:
            end -= 1
        held = end - start
        if masked:
            held = 0
            for place in range(start, end):
                held += mask[list_rows[place]]
        if held and floored:
            idf[i] = math.log(total - held + 0.5) - math.log(held + 0.5)
        elif held:
            idf[i] = math.log1p((total - held + 0.5) / (held + 0.5))
    return idf


@_compiled
def bm25(list_rows, list_counts, regions, weights, lengths, average, k1, b, gain):
    """`Kernels.bm25`."""
    rows = len(lengths)
    scores = np.zeros(rows)
    for i in range(len(regions)):
        weight, start = weights[i], regions[i, 0]
        for place in range(start, start + regions[i, 1]):
            row = list_rows[place]
            if row >= rows:
                break
            count = list_counts[place]
            norm = k1 * (1.0 - b + b * lengths[row] / average)
            scores[row] += weight * count * gain / (count + norm)
    return scores


@_compiled
def answer(
    list_rows,
    list_counts,
    regions,
    times,
    lengths,
    average,
    total,
    k1,
    b,
    gain,
    floored,
    vectors,
    codes,
    scales,
    errors,
    query,
    order,
    masked,
    mask,
    alpha,
    count,
):
    """`Kernels.answer`, which has no answer if the spread is negative."""
    weights = times * idf(list_rows, regions, len(lengths), masked, mask, total, floored)
    scores = bm25(list_rows, list_counts, regions, weights, lengths, average, k1, b, gain)
    if len(weights) and weights.min() < 0.0:
        return np.zeros(0, np.int64), np.zeros((5, 0)), -1.0
    return best_of_all(vectors, codes, scales, errors, query, scores, order, masked, mask, alpha, count)


@_compiled
def best(cosine, bm25, order, masked, mask, alpha, count):
    """`Kernels.best`."""
    low_v, high_v = _range(cosine, masked, mask)
    low_b, high_b = _range(bm25, masked, mask)
    combined = _combined(cosine, bm25, alpha, low_v, high_v, low_b, high_b)
    rows = _top(combined, order, masked, mask, count)
    return _fused(rows, rows, cosine, bm25, combined, low_v, high_v, low_b, high_b)


@_compiled
def best_of_all(vectors, codes, scales, errors, query, bm25, order, masked, mask, alpha, count):
    """`Kernels.best_of_all`: one pass over the coarse rows, then the exact products of those that may matter."""
    query_codes, scale, error = _query_codes(query)
    products = _coarse_products(codes, scales, query_codes, scale)
    bounds = errors + np.float32(error + ROUNDING)
    low_v, high_v = _exact_range(products, bounds, vectors, query, masked, mask)
    low_b, high_b = _range(bm25, masked, mask)
    slope = alpha / (high_v - low_v) if high_v - low_v > EQUAL_WITHIN else 0.0
    least = _least_combined(products, bounds, bm25, slope, low_v, alpha, low_b, high_b)
    threshold = least[highest(least, masked, mask, count)].min()
    rows = _reaching(threshold, least, bounds, slope, masked, mask)

    cosine, lexical = inner_products_of(vectors, rows, query), bm25[rows]
    combined = _combined(cosine, lexical, alpha, low_v, high_v, low_b, high_b)
    top = _top(combined, order[rows], False, mask, count)
    return _fused(rows[top], top, cosine, lexical, combined, low_v, high_v, low_b, high_b)


@_compiled
def _query_codes(query):
    """The query as 16-bit integers, their scale, and by how much this may change its product with a coarse row."""
    # So small that no sum of products with coarse rows leaves 32 bits.
    largest_code = min(32767, LARGEST_INT32 // (LARGEST_CODE * len(query)))
    codes = np.zeros(len(query), np.int16)
    largest = np.float64(np.abs(query).max())
    if largest == 0.0:
        return codes, 0.0, 0.0
    scale = largest / largest_code
    square = 0.0
    for i in range(len(query)):
        code = np.rint(query[i] / scale)
        codes[i] = np.int16(code)
        square += (query[i] - code * scale) ** 2
    # Coarse rows are at most a little longer than 1.
    return codes, scale, 1.1 * math.sqrt(square)


@_compiled
def _coarse_products(codes, scales, query_codes, query_scale):
    rows, dimension = codes.shape
    products = np.empty(rows, np.float32)
    for row in range(rows):
        product = np.int32(0)
        for i in range(dimension):
            product += np.int32(codes[row, i]) * np.int32(query_codes[i])
        # numba adds in 64 bits; that only 32 are asked for lets the compiler multiply 32 numbers at once.
        products[row] = np.float32(np.int32(product)) * (scales[row] * np.float32(query_scale))
    return products


@_compiled
def _exact_range(products, bounds, vectors, query, masked, mask):
    """The lowest and the highest exact product of the admitted rows, computed only where one of them may be."""
    lowest, highest_ = np.float32(np.inf), np.float32(-np.inf)
    for row in range(len(products)):
        if not masked or mask[row]:
            lowest = min(lowest, products[row] + bounds[row])
            highest_ = max(highest_, products[row] - bounds[row])
    low, high = np.inf, -np.inf
    for row in range(len(products)):
        may_be = products[row] - bounds[row] <= lowest or products[row] + bounds[row] >= highest_
        if may_be and (not masked or mask[row]):
            exact = np.float64(_inner_product(vectors[row], query))
            low, high = min(low, exact), max(high, exact)
    return low, high


@_vectorised
def _least_combined(products, bounds, bm25, slope, low_v, alpha, low_b, high_b):
    """What each row's combined score is at least, but for a constant."""
    steepness = (1.0 - alpha) / (high_b - low_b) if high_b - low_b > EQUAL_WITHIN else 0.0
    least = np.empty(len(products))
    for row in range(len(products)):
        least[row] = slope * (np.float64(products[row] - bounds[row]) - low_v) + steepness * (bm25[row] - low_b)
    return least


@_compiled
def _reaching(threshold, least, bounds, slope, masked, mask):
    """The admitted rows whose combined score may be as high as the threshold."""
    rows = np.empty(len(least), np.int64)
    size = 0
    for row in range(len(least)):
        if least[row] + 2.0 * slope * bounds[row] >= threshold - EQUAL_WITHIN and (not masked or mask[row]):
            rows[size] = row
            size += 1
    return rows[:size]


@_compiled
def _combined(cosine, bm25, alpha, low_v, high_v, low_b, high_b):
    range_v, range_b = high_v - low_v, high_b - low_b
    # Equal scores count 0.5 each (S-30): an infinite range makes them 0, and their share is added to all.
    constant = 0.0
    if not range_v > EQUAL_WITHIN:
        range_v, constant = np.inf, 0.5 * alpha
    if not range_b > EQUAL_WITHIN:
        range_b, constant = np.inf, constant + 0.5 * (1.0 - alpha)
    return _weighted(cosine, bm25, alpha, low_v, range_v, low_b, range_b, constant)


@_vectorised
def _weighted(cosine, bm25, alpha, low_v, range_v, low_b, range_b, constant):
    combined = np.empty(len(bm25))
    for row in range(len(bm25)):
        vector = (np.float64(cosine[row]) - low_v) / range_v
        lexical = (bm25[row] - low_b) / range_b
        combined[row] = (alpha * vector + (1.0 - alpha) * lexical) + constant
    return combined


@_compiled
def _fused(rows, places, cosine, bm25, combined, low_v, high_v, low_b, high_b):
    """The fields of `Fused` for these rows, whose scores stand at `places`."""
    scores = np.empty((5, len(rows)))
    for number, place in enumerate(places):
        vector, lexical = np.float64(cosine[place]), bm25[place]
        scores[0, number] = _scaled(vector, low_v, high_v)
        scores[1, number] = _scaled(lexical, low_b, high_b)
        scores[2, number] = combined[place]
        scores[3, number] = vector
        scores[4, number] = lexical
    return rows, scores, high_v - low_v if len(rows) else 0.0


@_compiled
def _scaled(value, low, high):
    return (value - low) / (high - low) if high - low > EQUAL_WITHIN else 0.5


@_compiled
def _range(values, masked, mask):
    if not masked:
        return _range_of_every(values)
    low, high = np.inf, -np.inf
    for row in range(len(values)):
        if mask[row]:
            low, high = min(low, np.float64(values[row])), max(high, np.float64(values[row]))
    return low, high


@_vectorised
def _range_of_every(values):
    low = high = values[0]
    for value in values:
        low, high = min(low, value), max(high, value)
    return np.float64(low), np.float64(high)


@_reordered
def _inner_product(vector, query):
    product = np.float32(0.0)
    for i in range(len(query)):
        product += vector[i] * query[i]
    return product


@_compiled
def inner_products_of(vectors, rows, query):
    """`Kernels.inner_products_of`."""
    products = np.empty(len(rows), np.float32)
    for place in range(len(rows)):
        products[place] = _inner_product(vectors[rows[place]], query)
    return products


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
def _top(scores, order, masked, mask, count):
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
