"""The functions of `services.search.domain.loops` as loops, compiled by numba: plain arrays in and out, no GIL.

An empty mask admits every row. numba caches compiled code beside this file and compiles again when this file has
changed; so nothing is imported from other modules of the project, whose changes it would not notice.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types

_compile = njit(cache=True, nogil=True, error_model="numpy")
# No value is NaN, so the compiler may use vector instructions; the order of operations stays.
_vectorise = njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
# Sums in any order: equal rows still give equal bits.
_reorder = njit(cache=True, nogil=True, error_model="numpy", fastmath=True)

# As in the domain's modules of fusion, loops and vectors; a test compares them.
EQUAL_WITHIN = 1e-12
LARGEST_CODE = 127
SENTENCE_BITS = 32
ENOUGH = 0.75
# The most that float32 rounding adds to a product of unit vectors.
ROUNDING = 2e-6
LARGEST_INT32 = 2**31 - 1
# A sum of so many products is unrolled, which saves a fifth of the time.
BLOCK = 128
# One lookup of a row in a list takes as long as reading so many of its rows.
LOOK_UP_COST = 16
# Replaces a mask that admits every row.
ALL_ROWS = np.empty(0, np.bool_)


@_compile
def count_admitted(rows, regions, mask):
    """Count for each list the rows that the mask admits."""
    counts = np.zeros(len(regions), np.int64)
    for i in range(len(regions)):
        for position in range(regions[i, 0], regions[i, 0] + regions[i, 1]):
            counts[i] += mask[rows[position]]
    return counts


@_compile
def rank_rows(
    units,
    codes,
    bounds,
    order,
    rows,
    counts,
    regions,
    weights,
    lengths,
    shortest,
    longer,
    attainable,
    sentences,
    query,
    mask,
    alpha,
    rise,
    count,
    refined_rows,
    sentence_weight,
):
    """Return the best rows, their scores, the spread of the cosines, the weight of the vector score, the range of BM25.

    One pass over the codes, then the exact products of the rows that may matter. With `refined_rows`, the best are
    chosen out of so many by their best sentence: a second call from Python would take longer than the choice.
    """
    limit = max(count, refined_rows)
    bm25 = np.zeros(len(lengths))
    for i in range(len(regions)):
        _add_list(bm25, rows, counts, regions[i], weights[i], lengths, shortest, longer)
    query_codes, scale, error = _encode_query(query)
    # The largest error of a product of codes, besides the row's own error.
    tolerance = np.float32(error + ROUNDING)
    products, below, above = _compute_coarse_products(codes, bounds, tolerance, query_codes, scale, mask)
    chosen = np.empty(len(order), np.int64)
    size = _choose_outermost(products, bounds, tolerance, below, above, mask, chosen)
    low_v, high_v = _find_range(_compute_inner_products(units, chosen[:size], query), ALL_ROWS)
    low_b, high_b = _find_range(bm25, mask)
    alpha = _choose_alpha(alpha, rise, high_b, attainable)
    slope_v = alpha / (high_v - low_v) if high_v - low_v > EQUAL_WITHIN else 0.0
    slope_b = (1.0 - alpha) / (high_b - low_b) if high_b - low_b > EQUAL_WITHIN else 0.0
    size = _choose_within_reach(
        products, bounds, tolerance, bm25, (low_v, low_b), (slope_v, slope_b), mask, limit, chosen
    )
    chosen = chosen[:size]
    cosine, lexical = _compute_inner_products(units, chosen, query), bm25[chosen]
    best, scores = _rank_scored(chosen, cosine, lexical, order, alpha, low_v, high_v, low_b, high_b, limit)
    if refined_rows:
        best, scores = _prefer_best_sentences(
            rows, sentences, regions, weights, best, scores, order, low_b, high_b, alpha, sentence_weight, count
        )
    return best, scores, high_v - low_v if len(best) else 0.0, alpha, low_b, high_b


@_compile
def rank_pool(
    units,
    order,
    rows,
    counts,
    regions,
    weights,
    lengths,
    shortest,
    longer,
    attainable,
    sentences,
    query,
    pool,
    alpha,
    rise,
    count,
    refined_rows,
    sentence_weight,
):
    """Return the same as `rank_rows` for the rows of the pool, which ascend, as if there were no others."""
    bm25 = np.zeros(len(pool))
    for i in range(len(regions)):
        position, end = regions[i, 0], regions[i, 0] + regions[i, 1]
        for number, row in enumerate(pool):
            position = _find_position(rows, position, end, row)
            if position < end and rows[position] == row:
                bm25[number] += weights[i] * counts[position] / (counts[position] + (shortest + longer * lengths[row]))
    cosine = _compute_inner_products(units, pool, query)
    low_v, high_v = _find_range(cosine, ALL_ROWS)
    low_b, high_b = _find_range(bm25, ALL_ROWS)
    alpha = _choose_alpha(alpha, rise, high_b, attainable)
    limit = max(count, refined_rows)
    best, scores = _rank_scored(pool, cosine, bm25, order, alpha, low_v, high_v, low_b, high_b, limit)
    if refined_rows:
        best, scores = _prefer_best_sentences(
            rows, sentences, regions, weights, best, scores, order, low_b, high_b, alpha, sentence_weight, count
        )
    return best, scores, high_v - low_v if len(best) else 0.0, alpha, low_b, high_b


@_compile
def _rank_scored(chosen, cosine, lexical, order, alpha, low_v, high_v, low_b, high_b, count):
    """Return the best of the chosen rows, and their scores, by their cosines and their BM25."""
    combined = _combine(cosine, lexical, alpha, low_v, high_v, low_b, high_b)
    positions = _sort_highest(combined, order[chosen], count)
    scores = np.empty((5, len(positions)))
    for number, position in enumerate(positions):
        vector = np.float64(cosine[position])
        scores[0, number] = _scale(vector, low_v, high_v)
        scores[1, number] = _scale(lexical[position], low_b, high_b)
        scores[2, number] = combined[position]
        scores[3, number] = vector
        scores[4, number] = lexical[position]
    return chosen[positions], scores


@_compile
def select_best_by_words(rows, counts, regions, weights, lengths, shortest, longer, mask, count):
    """Return the admitted rows with the highest BM25 above 0. No weight may be negative.

    MaxScore (Turtle & Flood, "Query evaluation: strategies and optimizations", 1995): a term adds less than its
    weight. Lists are read from the heaviest on. As soon as no row of the remaining lists
    alone can be among the best, these lists are read only for rows that still can.
    """
    by_weight = np.argsort(-weights)
    rest = np.zeros(len(weights) + 1)
    for number in range(len(weights) - 1, -1, -1):
        rest[number] = rest[number + 1] + weights[by_weight[number]]
    scores, touched, size, threshold = np.zeros(len(lengths)), np.empty(len(lengths), np.int64), 0, 0.0
    for number in range(np.count_nonzero(weights)):
        i = by_weight[number]
        start, end = regions[i, 0], regions[i, 0] + regions[i, 1]
        may_enter = size < count or rest[number] >= threshold
        if may_enter or LOOK_UP_COST * size > end - start:
            for position in range(start, end):
                row = rows[position]
                if scores[row] == 0.0:
                    if not may_enter or (len(mask) and not mask[row]):
                        continue
                    touched[size] = row
                    size += 1
                scores[row] += weights[i] * counts[position] / (counts[position] + (shortest + longer * lengths[row]))
        else:
            for row in touched[:size]:
                position = _find_position(rows, start, end, row)
                if position < end and rows[position] == row:
                    scores[row] += (
                        weights[i] * counts[position] / (counts[position] + (shortest + longer * lengths[row]))
                    )
        if size > count:
            best = _select_highest(scores[touched[:size]], ALL_ROWS, count)
            # Sums of another order may come out a little lower.
            threshold = scores[touched[best]].min() * (1.0 - EQUAL_WITHIN)
            remaining = 0
            for row in touched[:size]:
                if scores[row] + rest[number + 1] >= threshold:
                    touched[remaining] = row
                    remaining += 1
            size = remaining
    return touched[_select_highest(scores[touched[:size]], ALL_ROWS, count)]


@_compile
def _prefer_best_sentences(
    rows, sentences, regions, weights, chosen, scores, order, lowest, highest, alpha, weight, count
):
    """Return the best of the chosen rows, and their scores, after their BM25 is raised by their best sentence."""
    sums = _sum_best_sentences(rows, sentences, regions, weights, chosen)
    if len(sums) and sums.max() > 0.0:
        raised = scores[4] + weight * sums
        highest = max(highest, raised.max())
        if highest - lowest > EQUAL_WITHIN:
            scores[1] = (raised - lowest) / (highest - lowest)
        scores[2] = alpha * scores[0] + (1.0 - alpha) * scores[1]
    positions = _sort_highest(scores[2], order[chosen], count)
    return chosen[positions], scores[:, positions]


@_compile
def _sum_best_sentences(rows, sentences, regions, weights, chosen):
    """Return for each chosen row the highest sum of weights of the terms that one of its sentences contains."""
    best, sums = np.zeros(len(chosen)), np.empty(SENTENCE_BITS)
    for number, row in enumerate(chosen):
        sums[:] = 0.0
        for i in range(len(regions)):
            start, end = regions[i, 0], regions[i, 0] + regions[i, 1]
            position = _find_position(rows, start, end, row)
            if position < end and rows[position] == row:
                bits, sentence = sentences[position], 0
                while bits:
                    if bits & 1:
                        sums[sentence] += weights[i]
                    bits, sentence = bits >> 1, sentence + 1
        best[number] = sums.max()
    return best


@_compile
def _find_position(rows, start, end, row):
    """Return the position from `start` of the first row of an ascending list that is not below `row`, or `end`."""
    while start < end:
        middle = (start + end) >> 1
        if rows[middle] < row:
            start = middle + 1
        else:
            end = middle
    return start


@_compile
def _choose_alpha(alpha, rise, best, attainable):
    """See `Fusion.choose_alpha`."""
    coverage = min(1.0, best / (ENOUGH * attainable)) if best > 0.0 and attainable > 0.0 else 0.0
    return alpha + rise * (1.0 - coverage)


@_compile
def _add_list(scores, rows, counts, region, weight, lengths, shortest, longer):
    """Add the BM25 scores of one list."""
    for position in range(region[0], region[0] + region[1]):
        row, occurrences = rows[position], counts[position]
        scores[row] += weight * occurrences / (occurrences + (shortest + longer * lengths[row]))


@_compile
def _encode_query(query):
    """Return the query as 16-bit integers, their scale, and the most that this changes a product with codes."""
    # So small that no sum of products with codes leaves 32 bits.
    largest_code = min(32767, LARGEST_INT32 // (LARGEST_CODE * len(query)))
    codes = np.empty(len(query), np.int16)
    scale = _find_largest(query) / largest_code
    # Rows of codes are at most a little longer than 1.
    return codes, scale, 1.1 * math.sqrt(_store_codes(query, scale, codes))


@_vectorise
def _find_largest(query):
    largest = np.float32(0.0)
    for value in query:
        largest = max(largest, abs(value))
    return np.float64(largest)


@_reorder
def _store_codes(query, scale, codes):
    """Write the codes; return the squared length of the rounding errors."""
    per_code, square = 1.0 / scale if scale else 0.0, 0.0
    for i in range(len(query)):
        code = np.rint(query[i] * per_code)
        codes[i] = np.int16(code)
        square += (query[i] - code * scale) ** 2
    return square


@_compile
def _compute_coarse_products(codes, bounds, tolerance, query_codes, query_scale, mask):
    """Return the products, and of the exact products of admitted rows: bounds of the lowest and the highest."""
    rows, dimension = codes.shape
    whole = dimension - dimension % BLOCK
    products = np.empty(rows, np.float32)
    below, above = np.float32(np.inf), np.float32(-np.inf)
    for row in range(rows):
        # numba adds in 64 bits; the casts to 32 let the compiler multiply 32 numbers at once.
        sum_ = np.int32(0)
        for start in range(0, whole, BLOCK):
            block_sum = np.int32(0)
            for i in range(BLOCK):
                block_sum += np.int32(codes[row, start + i]) * np.int32(query_codes[start + i])
            sum_ = np.int32(sum_ + block_sum)
        for i in range(whole, dimension):
            sum_ = np.int32(sum_ + np.int32(codes[row, i]) * np.int32(query_codes[i]))
        product = np.float32(sum_) * (bounds[row, 0] * np.float32(query_scale))
        products[row] = product
        if not len(mask) or mask[row]:
            below = min(below, product + (bounds[row, 1] + tolerance))
            above = max(above, product - (bounds[row, 1] + tolerance))
    return products, below, above


@_compile
def _choose_outermost(products, bounds, tolerance, below, above, mask, chosen):
    """Write the admitted rows whose exact product may be the lowest or the highest; return their number."""
    size = 0
    for row in range(len(products)):
        bound = bounds[row, 1] + tolerance
        may_be = products[row] - bound <= below or products[row] + bound >= above
        if may_be and (not len(mask) or mask[row]):
            chosen[size] = row
            size += 1
    return size


@_compile
def _choose_within_reach(products, bounds, tolerance, bm25, lows, slopes, mask, count, chosen):
    """Write the admitted rows whose combined score may be among the highest; return their number."""
    (low_v, low_b), (slope_v, slope_b) = lows, slopes
    # The lower bound of each row's score, except for a constant.
    least = np.empty(len(products))
    for row in range(len(products)):
        lowest = np.float64(products[row] - (bounds[row, 1] + tolerance))
        least[row] = slope_v * (lowest - low_v) + slope_b * (bm25[row] - low_b)
    threshold = least[_select_highest(least, mask, count)].min() - EQUAL_WITHIN
    size = 0
    for row in range(len(products)):
        most = least[row] + 2.0 * slope_v * (bounds[row, 1] + tolerance)
        if most >= threshold and (not len(mask) or mask[row]):
            chosen[size] = row
            size += 1
    return size


@_compile
def _combine(cosine, bm25, alpha, low_v, high_v, low_b, high_b):
    range_v, range_b = high_v - low_v, high_b - low_b
    # Equal scores count 0.5 each (S-30): an infinite range makes them 0, and their share is added to all.
    constant = 0.0
    if not range_v > EQUAL_WITHIN:
        range_v, constant = np.inf, 0.5 * alpha
    if not range_b > EQUAL_WITHIN:
        range_b, constant = np.inf, constant + 0.5 * (1.0 - alpha)
    combined = np.empty(len(bm25))
    for row in range(len(bm25)):
        vector = (np.float64(cosine[row]) - low_v) / range_v
        lexical = (bm25[row] - low_b) / range_b
        combined[row] = (alpha * vector + (1.0 - alpha) * lexical) + constant
    return combined


@_compile
def _scale(value, low, high):
    return (value - low) / (high - low) if high - low > EQUAL_WITHIN else 0.5


@_compile
def _find_range(values, mask):
    if not len(mask):
        return _find_full_range(values)
    low, high = np.inf, -np.inf
    for row in range(len(values)):
        if mask[row]:
            low, high = min(low, np.float64(values[row])), max(high, np.float64(values[row]))
    return low, high


@_vectorise
def _find_full_range(values):
    if not len(values):
        return np.inf, -np.inf
    low = high = values[0]
    for value in values:
        low, high = min(low, value), max(high, value)
    return np.float64(low), np.float64(high)


@_reorder
def _compute_inner_product(vector, query):
    product = np.float32(0.0)
    for i in range(len(query)):
        product += vector[i] * query[i]
    return product


@_compile
def _compute_inner_products(vectors, rows, query):
    products = np.empty(len(rows), np.float32)
    for position in range(len(rows)):
        products[position] = _compute_inner_product(vectors[rows[position]], query)
    return products


@_compile
def _select_highest(scores, mask, count):
    """Return the admitted positions of the highest scores, in any order.

    A heap has the lowest of the highest scores so far as its root; of equal scores the first stay.
    """
    limit = min(count, len(scores))
    highest = np.full(limit, -np.inf)
    rows = np.full(limit, -1, np.int64)
    for row in range(len(scores)):
        score = scores[row]
        if score <= highest[0] or (len(mask) and not mask[row]):
            continue
        position = 0
        while True:
            child = 2 * position + 1
            if child >= limit:
                break
            if child + 1 < limit and highest[child + 1] < highest[child]:
                child += 1
            if highest[child] >= score:
                break
            highest[position], rows[position] = highest[child], rows[child]
            position = child
        highest[position], rows[position] = score, row
    return rows[rows >= 0]


@_compile
def _sort_highest(scores, order, count):
    """Return the positions of the highest scores, best first, ties by `order`."""
    threshold = scores[_select_highest(scores, ALL_ROWS, count)].min()
    positions = np.flatnonzero(scores >= threshold)
    # Few are left: sorted by insertion.
    for number in range(1, len(positions)):
        position, target = positions[number], number
        while target > 0 and _comes_before(scores, order, position, positions[target - 1]):
            positions[target] = positions[target - 1]
            target -= 1
        positions[target] = position
    return positions[:count]


@_compile
def _comes_before(scores, order, position, other):
    return scores[position] > scores[other] or (scores[position] == scores[other] and order[position] < order[other])


def _build_readonly_array(dtype, dimensions):
    """Return the type of a read-only array, such as those of a snapshot."""
    return types.Array(dtype, dimensions, "C", readonly=True)


_lists = (
    _build_readonly_array(types.int32, 1),
    _build_readonly_array(types.int32, 1),
    _build_readonly_array(types.int64, 2),
)
_words = (
    *_lists,
    _build_readonly_array(types.float64, 1),
    _build_readonly_array(types.int32, 1),
    types.float64,
    types.float64,
)
_mask = _build_readonly_array(types.boolean, 1)
_vectors = (
    _build_readonly_array(types.float32, 2),
    _build_readonly_array(types.int8, 2),
    _build_readonly_array(types.float32, 2),
    _build_readonly_array(types.int64, 1),
)
_query = (types.float64, _build_readonly_array(types.uint32, 1), _build_readonly_array(types.float32, 1))
_fusion = (types.float64, types.float64, types.int64, types.int64, types.float64)

SIGNATURES: dict[Any, tuple[Any, ...]] = {
    rank_rows: (*_vectors, *_words, *_query, _mask, *_fusion),
    rank_pool: (_vectors[0], _vectors[3], *_words, *_query, _build_readonly_array(types.int64, 1), *_fusion),
    select_best_by_words: (*_words, _mask, types.int64),
    count_admitted: (_lists[0], _lists[2], _mask),
}
"""The loops that Python calls, and the argument types that they are compiled for."""
