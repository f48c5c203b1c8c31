"""Every way of computing that an index may be given."""

from __future__ import annotations

import numpy as np

from services.search.adapters.compiled import CompiledKernels, FaissKernels
from services.search.domain.kernels import Kernels, NumpyKernels

COMPILED = CompiledKernels.warmed()
KERNELS: list[Kernels] = [NumpyKernels(), FaissKernels(), CompiledKernels(), COMPILED]


def kernels_name(kernels: Kernels) -> str:
    return "loops not loaded yet" if kernels is KERNELS[2] else type(kernels).__name__


def unit32(vector: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(vector)
    return (vector / norm if norm else vector).astype(np.float32)
