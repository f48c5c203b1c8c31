"""The loops of `CompiledKernels` that read, compiled by numba: plain numbers and arrays in and out, no GIL."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,attr-defined,call-arg"

from __future__ import annotations

import math

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from services.search.adapters.frames import (
    AVERAGE,
    CODES,
    ERRORS,
    FLOORED,
    GAIN,
    K1,
    LENGTHS,
    LIST_COUNTS,
    LIST_ROWS,
    MASK,
    MASKED,
    NUMBERS,
    ORDER,
    PLACES,
    ROWS,
    SCALES,
    TOTAL,
    VECTORS,
    WIDTH,
    B,
)
from services.search.adapters.heap_loops import highest, top
from services.search.adapters.loops import compiled
from services.search.domain.coarse import LARGEST_CODE
from services.search.domain.fusion import EQUAL_WITHIN
from services.search.domain.postings import LENGTH, LENGTH_BITS

_compiled = compiled()
# No value is NaN here, which lets the compiler use vector instructions; the order of operations stays.
_vectorised = compiled(fastmath={"nnan", "nsz"})
# Sums in any order: equal rows still give equal bits.
_reordered = compiled(fastmath=True)

# What float32 rounding may add to a product of unit vectors.
ROUNDING = 2e-6
LARGEST_INT32 = 2**31 - 1
# A sum of so many products is unrolled, which takes a fifth less time.
BLOCK = 128


@_compiled
def idf(list_rows, regions, rows, masked, mask, total, floored):
    """`Kernels.idf`."""
    idf = np.empty(len(regions))
    for i in range(len(regions)):
        idf[i] = _idf(list_rows, regions[i], rows, masked, mask, total, floored)
    return idf


@_compiled
def _idf(list_rows, region, rows, masked, mask, total, floored):
    start = region >> LENGTH_BITS
    end = start + (region & LENGTH)
    while end > start and list_rows[end - 1] >= rows:
        end -= 1
    held = end - start
    if masked:
        held = 0
        for place in range(start, end):
            held += mask[list_rows[place]]
    if not held:
        return 0.0
    if floored:
        return math.log(total - held + 0.5) - math.log(held + 0.5)
    return math.log1p((total - held + 0.5) / (held + 0.5))


@_compiled
def bm25(list_rows, list_counts, regions, weights, lengths, average, k1, b, gain):
    """`Kernels.bm25`."""
    scores = np.zeros(len(lengths))
    for i in range(len(regions)):
        _add_bm25(scores, list_rows, list_counts, regions[i], weights[i] * gain, lengths, average, k1, b)
    return scores


@_compiled
def _add_bm25(scores, list_rows, list_counts, region, weight, lengths, average, k1, b):
    """Add what one list gives."""
    start = region >> LENGTH_BITS
    shortest, longer = k1 * (1.0 - b), k1 * b / average
    for place in range(start, start + (region & LENGTH)):
        row = list_rows[place]
        if row >= len(lengths):
            break
        count = list_counts[place]
        scores[row] += weight * count / (count + (shortest + longer * lengths[row]))


@intrinsic
def _pointer(typing, address):
    """An address as a pointer."""

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


@_compiled
def answer(words, regions, times, query, alpha, count, found, scores):
    """`Kernels.answer` over the words of a frame. Without an answer the spread is negative."""
    rows, width, places = words[ROWS], words[WIDTH], words[PLACES]
    list_rows = carray(_pointer(words[LIST_ROWS]), places, np.int32)
    list_counts = carray(_pointer(words[LIST_COUNTS]), places, np.int32)
    lengths = carray(_pointer(words[LENGTHS]), rows, np.int32)
    vectors = carray(_pointer(words[VECTORS]), (rows, width), np.float32)
    codes = carray(_pointer(words[CODES]), (rows, width), np.int8)
    scales = carray(_pointer(words[SCALES]), rows, np.float32)
    errors = carray(_pointer(words[ERRORS]), rows, np.float32)
    order = carray(_pointer(words[ORDER]), rows, np.int64)
    masked, floored = words[MASKED] != 0, words[FLOORED] != 0
    mask = carray(_pointer(words[MASK]), rows if masked else 1, np.bool_)
    numbers = carray(_pointer(words[NUMBERS]), 4, np.float64)
    average, k1, b, gain = numbers[AVERAGE], numbers[K1], numbers[B], numbers[GAIN]

    of_words = np.zeros(rows)
    for i in range(len(regions)):
        weight = times[i] * _idf(list_rows, regions[i], rows, masked, mask, words[TOTAL], floored)
        if weight < 0.0:
            return 0, -1.0
        _add_bm25(of_words, list_rows, list_counts, regions[i], weight * gain, lengths, average, k1, b)
    return best_of_all(
        vectors, codes, scales, errors, query, of_words, order, masked, mask, alpha, count, found, scores
    )


@_compiled
def best(cosine, bm25, order, masked, mask, alpha, count, found, scores):
    """`Kernels.best`: writes the best rows and their scores; how many they are, and the spread."""
    low_v, high_v = _range(cosine, masked, mask)
    low_b, high_b = _range(bm25, masked, mask)
    combined = _combined(cosine, bm25, alpha, low_v, high_v, low_b, high_b)
    rows = top(combined, order, masked, mask, count)
    found[: len(rows)] = rows
    return _scored(rows, cosine, bm25, combined, low_v, high_v, low_b, high_b, scores)


@_compiled
def best_of_all(vectors, codes, scales, errors, query, bm25, order, masked, mask, alpha, count, found, scores):
    """`Kernels.best_of_all`, which writes as `best` does.

    One pass over the coarse rows, then the exact products of those that may matter.
    """
    query_codes, scale, error = _query_codes(query)
    # By how much a product of coarse rows may be off, besides the row's own error.
    off = np.float32(error + ROUNDING)
    products, below, above = _coarse_products(codes, scales, errors, off, query_codes, scale, masked, mask)
    rows = np.empty(len(errors), np.int64)
    size = _outermost(products, errors, off, below, above, masked, mask, rows)
    low_v, high_v = _range(inner_products_of(vectors, rows[:size], query), False, mask)
    low_b, high_b = _range(bm25, masked, mask)
    slope_v = alpha / (high_v - low_v) if high_v - low_v > EQUAL_WITHIN else 0.0
    slope_b = (1.0 - alpha) / (high_b - low_b) if high_b - low_b > EQUAL_WITHIN else 0.0
    lows, slopes = (low_v, low_b), (slope_v, slope_b)
    size = _within_reach(products, errors, off, bm25, lows, slopes, masked, mask, count, rows)

    cosine, lexical = inner_products_of(vectors, rows[:size], query), bm25[rows[:size]]
    combined = _combined(cosine, lexical, alpha, low_v, high_v, low_b, high_b)
    places = top(combined, order[rows[:size]], False, mask, count)
    for number, place in enumerate(places):
        found[number] = rows[place]
    return _scored(places, cosine, lexical, combined, low_v, high_v, low_b, high_b, scores)


@_compiled
def _query_codes(query):
    """The query as 16-bit integers, their scale, and by how much this may change its product with a coarse row."""
    # So small that no sum of products with coarse rows leaves 32 bits.
    largest_code = min(32767, LARGEST_INT32 // (LARGEST_CODE * len(query)))
    codes = np.empty(len(query), np.int16)
    scale = _largest(query) / largest_code
    # Coarse rows are at most a little longer than 1.
    return codes, scale, 1.1 * math.sqrt(_rounded(query, scale, codes))


@_vectorised
def _largest(query):
    largest = np.float32(0.0)
    for value in query:
        largest = max(largest, abs(value))
    return np.float64(largest)


@_reordered
def _rounded(query, scale, codes):
    """Write the codes; the square of the length of what they leave out."""
    per_code, square = 1.0 / scale if scale else 0.0, 0.0
    for i in range(len(query)):
        code = np.rint(query[i] * per_code)
        codes[i] = np.int16(code)
        square += (query[i] - code * scale) ** 2
    return square


@_compiled
def _coarse_products(codes, scales, errors, off, query_codes, query_scale, masked, mask):
    """The products; what the lowest exact one of the admitted rows is at most, and the highest at least."""
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
        product = np.float32(sum_) * (scales[row] * np.float32(query_scale))
        products[row] = product
        if not masked or mask[row]:
            below = min(below, product + (errors[row] + off))
            above = max(above, product - (errors[row] + off))
    return products, below, above


@_compiled
def _outermost(products, errors, off, below, above, masked, mask, rows):
    """Write the admitted rows whose exact product may be the lowest or the highest; how many they are."""
    size = 0
    for row in range(len(products)):
        bound = errors[row] + off
        may_be = products[row] - bound <= below or products[row] + bound >= above
        if may_be and (not masked or mask[row]):
            rows[size] = row
            size += 1
    return size


@_compiled
def _within_reach(products, errors, off, bm25, lows, slopes, masked, mask, count, rows):
    """Write the admitted rows whose combined score may be among the `count` highest; how many they are."""
    (low_v, low_b), (slope_v, slope_b) = lows, slopes
    # What each row's score is at least, but for a constant.
    least = np.empty(len(products))
    for row in range(len(products)):
        lowest = np.float64(products[row] - (errors[row] + off))
        least[row] = slope_v * (lowest - low_v) + slope_b * (bm25[row] - low_b)
    threshold = least[highest(least, masked, mask, count)].min() - EQUAL_WITHIN
    size = 0
    for row in range(len(products)):
        most = least[row] + 2.0 * slope_v * (errors[row] + off)
        if most >= threshold and (not masked or mask[row]):
            rows[size] = row
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
def _scored(places, cosine, bm25, combined, low_v, high_v, low_b, high_b, scores):
    """Write the scores that stand at `places`; how many they are, and the spread."""
    for number, place in enumerate(places):
        vector, lexical = np.float64(cosine[place]), bm25[place]
        scores[0, number] = _scaled(vector, low_v, high_v)
        scores[1, number] = _scaled(lexical, low_b, high_b)
        scores[2, number] = combined[place]
        scores[3, number] = vector
        scores[4, number] = lexical
    return len(places), high_v - low_v if len(places) else 0.0


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
def inner_products_of(vectors, rows, query):
    """`Kernels.inner_products_of`."""
    products = np.empty(len(rows), np.float32)
    for place in range(len(rows)):
        products[place] = _inner_product(vectors[rows[place]], query)
    return products
