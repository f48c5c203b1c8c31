"""Decide many bullets at once with a bounded false discovery rate (e-BH, Wang and Ramdas 2022).

Bullets are tested in blocks by the order in which they came on trial: 30, 60, 120 … bullets with 4/5, 4/25, 4/125 … of
the error rate. The size of a block is counted in full from the start, so that later bullets change no decision; the
evidence of a decided bullet is frozen. The false discovery rate of all blocks together is at most the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FIRST_SIZE = 30
SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Block:
    """Bullets that are tested together: positions from `start` to before `start + size`, with their error rate."""

    start: int
    size: int
    error: float

    @property
    def positions(self) -> range:
        """Return the positions of the bullets."""
        return range(self.start, self.start + self.size)

    @property
    def largest_requirement(self) -> float:
        """Return the logarithm of the evidence that one bullet needs when no other has any."""
        return float(np.log(self.size / self.error))

    @property
    def least_requirement(self) -> float:
        """Return the logarithm of the evidence below which no bullet of the block is decided."""
        return float(-np.log(self.error))


def find_block(position: int, false_discovery_rate: float) -> Block:
    """Return the block of the bullet that came on trial as the `position`-th, counted from 0."""
    start, size, error = 0, FIRST_SIZE, SHARE * false_discovery_rate
    while position >= start + size:
        start, size, error = start + size, 2 * size, error * (1.0 - SHARE)
    return Block(start, size, error)


def select_discoveries(evidences: Sequence[float], block: Block) -> list[int]:
    """Return the indices of the bullets that are discoveries by e-BH; `evidences` are logarithms.

    They are the k bullets with the most evidence, for the largest k for which each has log(size / (error k)) or more.
    """
    order = np.argsort(np.negative(evidences), kind="stable")
    ranks = np.arange(1, len(order) + 1)
    enough = np.asarray(evidences)[order] >= np.log(block.size / (block.error * ranks))
    count = int(ranks[enough].max()) if enough.any() else 0
    return [int(index) for index in order[:count]]
