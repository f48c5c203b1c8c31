"""How loops are compiled: by numba, and kept on disk beside them.

numba compiles a function anew when its file has changed. What it takes from other modules is compiled in as well, and a
loop with an old layout of what it reads would read anything. So a digest of those modules is part of a loop's name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numba import njit

COMPILED_IN = (
    "services.search.adapters.frames",
    "services.search.adapters.heap_loops",
    "services.search.domain.coarse",
    "services.search.domain.fusion",
    "services.search.domain.postings",
)
"""The modules whose numbers and loops are compiled into loops of others."""

Loop = Callable[..., Any]


def digest_of(sources: Iterable[Path]) -> str:
    """Eight hexadecimal digits that change with any of these files."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:8]


def _source(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"the loops need the source of {module}, which is not installed")
    return Path(spec.origin)


DIGEST = digest_of(map(_source, COMPILED_IN))


def compiled(*, nogil: bool = True, **options: Any) -> Callable[[Loop], Loop]:
    """Compiles a loop at its first call, or loads what was compiled before; `options` are those of `numba.njit`."""

    def compiling(function: Loop) -> Loop:
        function.__qualname__ += f"_{DIGEST}"
        loop: Loop = njit(cache=True, nogil=nogil, error_model="numpy", **options)(function)
        return loop

    return compiling
