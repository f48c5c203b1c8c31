"""Vectors of unit length, and their quantised form in a quarter of the space, with error bounds.

A row is stored a second time as 8-bit integers and a scale, `row ~ codes · scale`, with the length of the rounding
error. By Cauchy-Schwarz that length bounds the error of a product with a unit vector. So a pass over the codes finds
the few rows whose exact products can matter, and the ranking stays exact (ADR 021).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from services.search.domain.columns import Column

Float32s = NDArray[np.float32]
Floats = NDArray[np.float64]
Int8s = NDArray[np.int8]

LARGEST_CODE = 127
# float32 rounds the bounds, so they are stored slightly larger.
ROUNDED_UP = 1.00001
_SMALL = 1e-100
_TINY = np.finfo(np.float32).tiny
_BLOCK = 4096


def scale_to_unit(vectors: Floats) -> Floats:
    """Return the vectors divided by their norm, zero vectors unchanged."""
    with np.errstate(over="ignore", under="ignore"):
        norms = np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True))
    if norms.size and norms.min() > _SMALL and norms.max() < np.inf:
        units: Floats = vectors / norms
        return units
    # Scaling by the largest value prevents squares that overflow or vanish.
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    scaled = vectors / np.where(largest == 0.0, 1.0, largest)
    norms = np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True))
    normalised: Floats = scaled / np.where(norms == 0.0, 1.0, norms)
    return normalised


def quantize(units: Float32s) -> tuple[Int8s, Float32s]:
    """Return the codes of unit vectors of shape (N, d), and the scale and error bound of each row, shape (N, 2)."""
    bounds = np.empty((len(units), 2), np.float32)
    scales = bounds[:, :1]
    np.divide(np.abs(units).max(axis=1, keepdims=True, initial=0.0), np.float32(LARGEST_CODE), out=scales)
    codes = np.rint(units / np.maximum(scales, _TINY))
    errors = units - codes.astype(np.float64) * scales
    bounds[:, 1] = np.sqrt((errors * errors).sum(axis=1)) * ROUNDED_UP
    return codes.astype(np.int8), bounds


def compute_inner_products(vectors: Float32s, query: Float32s) -> Float32s:
    """Return the product of every row with `query`; equal rows give equal bits (S-41).

    einsum sums each row alone, whereas a BLAS product may round the last rows differently.
    """
    products: Float32s = np.einsum("ij,j->i", vectors, query)
    return products


class Vectors:
    """The table of the writer: rows are only appended."""

    def __init__(self, units: Column, codes: Column, bounds: Column) -> None:
        self.units, self.codes, self.bounds = units, codes, bounds

    @classmethod
    def create(cls, width: int) -> Vectors:
        """Return a table without rows."""
        return cls(Column(np.float32, width), Column(np.int8, width), Column(np.float32, 2))

    @property
    def allocated_bytes(self) -> int:
        """Return the bytes of the table."""
        return sum(column.allocated_bytes for column in (self.units, self.codes, self.bounds))

    def append(self, vectors: Floats | Float32s) -> None:
        """Write finite vectors of any length as unit vectors, zero ones unchanged, with their codes."""
        for column in (self.units, self.codes, self.bounds):
            column.reserve(len(vectors))
        for block in _iterate_blocks(vectors):
            units = scale_to_unit(block.astype(np.float64)).astype(np.float32)
            codes, bounds = quantize(units)
            self.units.append(units)
            self.codes.append(codes)
            self.bounds.append(bounds)


def are_finite(vectors: Floats | Float32s) -> bool:
    """Return whether every value is a finite number."""
    return all(bool(np.isfinite(block).all()) for block in _iterate_blocks(vectors))


def _iterate_blocks(vectors: Floats | Float32s) -> Iterator[Floats | Float32s]:
    """Yield the rows in blocks: temporary arrays of a million rows would not fit into memory."""
    for start in range(0, len(vectors), _BLOCK):
        yield vectors[start : start + _BLOCK]
