"""Which rows lie near which others, so that a query need not look at all of them.

An inverted file (Jégou, Douze & Schmid, "Product Quantization for Nearest Neighbor Search", PAMI 2011, section IV):
spherical k-means gives centroids, every row is listed under its nearest one, and a query looks only at the lists of the
centroids nearest to it. The lists are the same growing postings as those of terms, so rows come and go without
rebuilding, and a reader's version stays as it was. The vectors themselves are not copied.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from services.search.domain.columns import Column
from services.search.domain.frozen import FrozenClusters
from services.search.domain.kernels import Float32s, Int64s
from services.search.domain.postings import Int32s, Postings, PostingsView, lists_of_rows

ROUNDS = 8
SAMPLE_A_CENTROID = 48
_BLOCK = 4096
_ONCE = np.ones(1, np.int32)


class ClusterView(NamedTuple):
    """The clusters as a reader sees them; lists may hold rows of later versions."""

    centroids: Float32s
    lists: PostingsView

    def rows_near_and_far(self, closeness: Float32s, probes: int, far: int, rows: int) -> tuple[Int64s, Int64s]:
        """The rows below `rows` under the `probes` nearest centroids, and under the `far` farthest ones.

        ``closeness`` is the product of each centroid with the query.
        """
        by_distance = np.argsort(-closeness)
        return self._listed(by_distance[:probes], rows), self._listed(by_distance[-far:], rows)

    def _listed(self, numbers: Int64s, rows: int) -> Int64s:
        lists = self.lists.numbered(numbers)
        listed = np.concatenate([lists.rows[places] for places in lists.places()]).astype(np.int64)
        return listed[listed < rows]


class Clusters:
    """The writer's side: rows are added one after another, in order."""

    def __init__(self, centroids: Float32s, numbers: Int32s) -> None:
        self.centroids = centroids
        self._numbers = Column.of(numbers)
        names = {str(number): number for number in range(len(centroids))}
        pointers = np.arange(len(numbers) + 1, dtype=np.int64)
        once = np.ones(len(numbers), np.int32)
        self._lists = Postings.of(names, lists_of_rows(pointers, numbers, once, len(centroids)))

    def append(self, vectors: Float32s) -> None:
        """List the next rows, each under its nearest centroid."""
        for number in nearest_centroids(self.centroids, vectors):
            self._lists.append(self._numbers.used, np.full(1, number), _ONCE)
            self._numbers.push(number)

    def frozen(self, rows: Int64s) -> FrozenClusters:
        """The clusters of these rows only, numbered anew in this order."""
        return FrozenClusters(self.centroids, self._numbers.array[rows])

    def view(self) -> ClusterView:
        """The clusters as they are now."""
        return ClusterView(self.centroids, self._lists.view())


def centroids_of(vectors: Float32s, count: int, rng: np.random.Generator) -> Float32s:
    """`count` centroids of unit vectors by spherical k-means; a centroid left without rows takes a random one."""
    centroids = vectors[rng.choice(len(vectors), count, replace=False)].copy()
    for _ in range(ROUNDS):
        numbers = nearest_centroids(centroids, vectors)
        by_centroid = np.argsort(numbers, kind="stable")
        sizes = np.bincount(numbers, minlength=count)
        held = np.flatnonzero(sizes)
        starts = np.cumsum(sizes) - sizes
        centroids[held] = np.add.reduceat(vectors[by_centroid], starts[held], axis=0)
        empty = np.flatnonzero(sizes == 0)
        centroids[empty] = vectors[rng.integers(len(vectors), size=len(empty))]
        norms = np.linalg.norm(centroids, axis=1, keepdims=True)
        centroids /= np.where(norms == 0.0, np.float32(1.0), norms)
    return centroids


def nearest_centroids(centroids: Float32s, vectors: Float32s) -> Int32s:
    """The number of the nearest centroid of each vector, shape (len(vectors),)."""
    numbers = np.empty(len(vectors), np.int32)
    for start in range(0, len(vectors), _BLOCK):
        numbers[start : start + _BLOCK] = np.argmax(vectors[start : start + _BLOCK] @ centroids.T, axis=1)
    return numbers
