"""The terms and attributes of a chunk as servers index them: hashed terms with saturated frequencies."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence

from services.search.domain.bm25 import Variant


def hash_term(term: str) -> int:
    """Return the number of a term, below 2 ** 32. Of a million terms, some hundred share a number."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def saturate_frequencies(terms: Sequence[str], variant: Variant, average_length: float) -> Mapping[int, float]:
    """Return the part of BM25 that depends on the chunk alone: saturated frequencies, normalised by length."""
    norm = variant.k1 * (1 - variant.b + variant.b * len(terms) / average_length)
    counts = Counter(map(hash_term, terms))
    return {number: count * variant.gain / (count + norm) for number, count in counts.items()}


def encode_attribute(name: str, value: str) -> str:
    """Return an attribute as one keyword. Names contain no equals sign."""
    return f"{name}={value}"
