"""Return freed memory to the operating system."""

from __future__ import annotations

import ctypes


def trim_memory() -> None:
    """Return the freed memory that glibc keeps for later; does nothing with other C libraries."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
