"""How loops are compiled: by numba, and kept on disk beside them.

numba compiles a function anew when its file has changed. Numbers of other modules are compiled in as well, and a loop
with an old layout of what it reads would read anything. So a digest of those modules is part of a loop's name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import njit

from services.search.adapters import frames
from services.search.domain import coarse, fusion, postings

COMPILED_IN: Sequence[ModuleType] = (frames, coarse, fusion, postings)
"""The modules whose numbers loops use."""

Loop = Callable[..., Any]


def digest_of(modules: Sequence[ModuleType]) -> str:
    """Eight hexadecimal digits that change with the source of any of these modules."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()[:8]


_DIGEST = digest_of(COMPILED_IN)


def compiled(*, nogil: bool = True, **options: Any) -> Callable[[Loop], Loop]:
    """Compiles a loop at its first call, or loads what was compiled before; `options` are those of `numba.njit`."""

    def compiling(function: Loop) -> Loop:
        function.__qualname__ += f"_{_DIGEST}"
        loop: Loop = njit(cache=True, nogil=nogil, error_model="numpy", **options)(function)
        return loop

    return compiling
