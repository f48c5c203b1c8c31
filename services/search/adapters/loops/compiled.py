"""The functions of `services.search.domain.loops` as loops, compiled by numba: plain arrays in and out, no GIL.

An empty mask admits every row. numba keeps compiled code beside this file and compiles anew when this file has changed;
so nothing is taken from other modules, whose changes it would not notice.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc"

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types

_compiled = njit(cache=True, nogil=True, error_model="numpy")
# No value is NaN here, which lets the compiler use vector instructions; the order of operations stays.
_vectorised = njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
# Sums in any order: equal rows still give equal bits.
_reordered = njit(cache=True, nogil=True, error_model="numpy", fastmath=True)

# As in `services.search.domain.fusion` and `services.search.domain.vectors`; a test compares them.
EQUAL_WITHIN = 1e-12
LARGEST_CODE = 127
# What float32 rounding may add to a product of unit vectors.
ROUNDING = 2e-6
LARGEST_INT32 = 2**31 - 1
# A sum of so many products is unrolled, which takes a fifth less time.
BLOCK = 128
# To look up a row in a list takes as long as to read so many of its rows.
LOOK_UP_COST = 16
# Stands for a mask where every row counts.
EVERY = np.empty(0, np.bool_)


@_compiled
def count_admitted(rows, regions, mask):
    """Count for each list the rows that the mask admits."""
    counts = np.zeros(len(regions), np.int64)
    for i in range(len(regions)):
        for place in range(regions[i, 0], regions[i, 0] + regions[i, 1]):
            counts[i] += mask[rows[place]]
    return counts


@_compiled
def rank_rows(
    units, codes, bounds, order, rows, counts, regions, weights, lengths, shortest, longer, query, mask, alpha, count
):
    """Return the best rows, their scores and the spread of the cosines.

    One pass over the codes, then the exact products of the rows that may matter.
    """
    bm25 = np.zeros(len(lengths))
    for i in range(len(regions)):
        _add_words(bm25, rows, counts, regions[i], weights[i], lengths, shortest, longer)
    query_codes, scale, error = _query_codes(query)
    # By how much a product of codes may be off, besides the row's own error.
    off = np.float32(error + ROUNDING)
    products, below, above = _coarse_products(codes, bounds, off, query_codes, scale, mask)
    chosen = np.empty(len(order), np.int64)
    size = _choose_outermost(products, bounds, off, below, above, mask, chosen)
    low_v, high_v = _range(_inner_products(units, chosen[:size], query), EVERY)
    low_b, high_b = _range(bm25, mask)
    slope_v = alpha / (high_v - low_v) if high_v - low_v > EQUAL_WITHIN else 0.0
    slope_b = (1.0 - alpha) / (high_b - low_b) if high_b - low_b > EQUAL_WITHIN else 0.0
    size = _choose_within_reach(products, bounds, off, bm25, (low_v, low_b), (slope_v, slope_b), mask, count, chosen)
    cosine, lexical = _inner_products(units, chosen[:size], query), bm25[chosen[:size]]
    combined = _combined(cosine, lexical, alpha, low_v, high_v, low_b, high_b)
    places = _top(combined, order[chosen[:size]], count)
    scores = np.empty((5, len(places)))
    for number, place in enumerate(places):
        vector = np.float64(cosine[place])
        scores[0, number] = _scaled(vector, low_v, high_v)
        scores[1, number] = _scaled(lexical[place], low_b, high_b)
        scores[2, number] = combined[place]
        scores[3, number] = vector
        scores[4, number] = lexical[place]
    return chosen[places], scores, high_v - low_v if len(places) else 0.0


@_compiled
def best_by_words(rows, counts, regions, weights, lengths, shortest, longer, mask, count):
    """Return the admitted rows with the highest BM25 above 0. No weight may be negative.

    MaxScore (Turtle & Flood, "Query evaluation: strategies and optimizations", 1995): a term adds less than its
    weight. Lists are read from the heaviest on. As soon as no row of the others alone can be among the best, they count
    for rows only that still may be.
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
            for place in range(start, end):
                row = rows[place]
                if scores[row] == 0.0:
                    if not may_enter or (len(mask) and not mask[row]):
                        continue
                    touched[size] = row
                    size += 1
                scores[row] += weights[i] * counts[place] / (counts[place] + (shortest + longer * lengths[row]))
        else:
            for row in touched[:size]:
                place = start + np.searchsorted(rows[start:end], row)
                if place < end and rows[place] == row:
                    scores[row] += weights[i] * counts[place] / (counts[place] + (shortest + longer * lengths[row]))
        if size > count:
            best = _highest(scores[touched[:size]], EVERY, count)
            # Sums of another order may come out a little lower.
            threshold = scores[touched[best]].min() * (1.0 - EQUAL_WITHIN)
            kept = 0
            for row in touched[:size]:
                if scores[row] + rest[number + 1] >= threshold:
                    touched[kept] = row
                    kept += 1
            size = kept
    return touched[_highest(scores[touched[:size]], EVERY, count)]


@_compiled
def _add_words(scores, rows, counts, region, weight, lengths, shortest, longer):
    """Add what one list gives."""
    for place in range(region[0], region[0] + region[1]):
        row, held = rows[place], counts[place]
        scores[row] += weight * held / (held + (shortest + longer * lengths[row]))


@_compiled
def _query_codes(query):
    """Return the query as 16-bit integers, their scale, and by how much this may change its product with codes."""
    # So small that no sum of products with codes leaves 32 bits.
    largest_code = min(32767, LARGEST_INT32 // (LARGEST_CODE * len(query)))
    codes = np.empty(len(query), np.int16)
    scale = _largest(query) / largest_code
    # Rows of codes are at most a little longer than 1.
    return codes, scale, 1.1 * math.sqrt(_store_codes(query, scale, codes))


@_vectorised
def _largest(query):
    largest = np.float32(0.0)
    for value in query:
        largest = max(largest, abs(value))
    return np.float64(largest)


@_reordered
def _store_codes(query, scale, codes):
    """Write the codes; return the square of the length of what they leave out."""
    per_code, square = 1.0 / scale if scale else 0.0, 0.0
    for i in range(len(query)):
        code = np.rint(query[i] * per_code)
        codes[i] = np.int16(code)
        square += (query[i] - code * scale) ** 2
    return square


@_compiled
def _coarse_products(codes, bounds, off, query_codes, query_scale, mask):
    """Return the products; what the lowest exact one of the admitted rows is at most, and the highest at least."""
    rows, dimension = codes.shape
    whole = dimension - dimension % BLOCK
    products = np.empty(rows, np.float32)
    below, above = np.float32(np.inf), np.float32(-np.inf)
    for row in range(rows):
        # numba adds in 64 bits; that only 32 are asked for lets the compiler multiply 32 numbers at once.
        sum_ = np.int32(0)
        for start in range(0, whole, BLOCK):
            of_block = np.int32(0)
            for i in range(BLOCK):
                of_block += np.int32(codes[row, start + i]) * np.int32(query_codes[start + i])
            sum_ = np.int32(sum_ + of_block)
        for i in range(whole, dimension):
            sum_ = np.int32(sum_ + np.int32(codes[row, i]) * np.int32(query_codes[i]))
        product = np.float32(sum_) * (bounds[row, 0] * np.float32(query_scale))
        products[row] = product
        if not len(mask) or mask[row]:
            below = min(below, product + (bounds[row, 1] + off))
            above = max(above, product - (bounds[row, 1] + off))
    return products, below, above


@_compiled
def _choose_outermost(products, bounds, off, below, above, mask, chosen):
    """Write the admitted rows whose exact product may be the lowest or the highest; return how many they are."""
    size = 0
    for row in range(len(products)):
        bound = bounds[row, 1] + off
        may_be = products[row] - bound <= below or products[row] + bound >= above
        if may_be and (not len(mask) or mask[row]):
            chosen[size] = row
            size += 1
    return size


@_compiled
def _choose_within_reach(products, bounds, off, bm25, lows, slopes, mask, count, chosen):
    """Write the admitted rows whose combined score may be among the highest; return how many they are."""
    (low_v, low_b), (slope_v, slope_b) = lows, slopes
    # What each row's score is at least, but for a constant.
    least = np.empty(len(products))
    for row in range(len(products)):
        lowest = np.float64(products[row] - (bounds[row, 1] + off))
        least[row] = slope_v * (lowest - low_v) + slope_b * (bm25[row] - low_b)
    threshold = least[_highest(least, mask, count)].min() - EQUAL_WITHIN
    size = 0
    for row in range(len(products)):
        most = least[row] + 2.0 * slope_v * (bounds[row, 1] + off)
        if most >= threshold and (not len(mask) or mask[row]):
            chosen[size] = row
            size += 1
    return size


@_compiled
def _combined(cosine, bm25, alpha, low_v, high_v, low_b, high_b):
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


@_compiled
def _scaled(value, low, high):
    return (value - low) / (high - low) if high - low > EQUAL_WITHIN else 0.5


@_compiled
def _range(values, mask):
    if not len(mask):
        return _range_of_every(values)
    low, high = np.inf, -np.inf
    for row in range(len(values)):
        if mask[row]:
            low, high = min(low, np.float64(values[row])), max(high, np.float64(values[row]))
    return low, high


@_vectorised
def _range_of_every(values):
    if not len(values):
        return np.inf, -np.inf
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
def _inner_products(vectors, rows, query):
    products = np.empty(len(rows), np.float32)
    for place in range(len(rows)):
        products[place] = _inner_product(vectors[rows[place]], query)
    return products


@_compiled
def _highest(scores, mask, count):
    """Return the admitted places of the highest scores, in any order.

    A heap whose root is the lowest of the highest so far; the first of equals stay.
    """
    limit = min(count, len(scores))
    kept = np.full(limit, -np.inf)
    rows = np.full(limit, -1, np.int64)
    for row in range(len(scores)):
        score = scores[row]
        if score <= kept[0] or (len(mask) and not mask[row]):
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
def _top(scores, order, count):
    """Return the places of the highest scores, best first, ties by `order`."""
    threshold = scores[_highest(scores, EVERY, count)].min()
    places = np.flatnonzero(scores >= threshold)
    # Few are left: sorted by insertion.
    for number in range(1, len(places)):
        place, at = places[number], number
        while at > 0 and _comes_before(scores, order, place, places[at - 1]):
            places[at] = places[at - 1]
            at -= 1
        places[at] = place
    return places[:count]


@_compiled
def _comes_before(scores, order, place, other):
    return scores[place] > scores[other] or (scores[place] == scores[other] and order[place] < order[other])


def _readable(dtype, dimensions):
    """Return the type of an array that may be read only, as those of a snapshot are."""
    return types.Array(dtype, dimensions, "C", readonly=True)


_lists = (_readable(types.int32, 1), _readable(types.int32, 1), _readable(types.int64, 2))
_words = (*_lists, _readable(types.float64, 1), _readable(types.int32, 1), types.float64, types.float64)
_mask = _readable(types.boolean, 1)
_vectors = (
    _readable(types.float32, 2),
    _readable(types.int8, 2),
    _readable(types.float32, 2),
    _readable(types.int64, 1),
)

SIGNATURES: dict[Any, tuple[Any, ...]] = {
    rank_rows: (*_vectors, *_words, _readable(types.float32, 1), _mask, types.float64, types.int64),
    best_by_words: (*_words, _mask, types.int64),
    count_admitted: (_lists[0], _lists[2], _mask),
}
"""The loops that are called from Python, with what each is compiled for."""
