"""Modules that the fork server imports once, so that a service starts in milliseconds instead of seconds.

A forked process differs from a started one: it has imported all of this, and shares the hash seed and the number of
threads for linear algebra. `tests/behaviour/system/test_starts.py` therefore starts each service by `python -m`.
"""

from __future__ import annotations

import gc

import services.validator.domain.bradley_terry  # noqa: F401
from services.search.adapters.loops import load_loops

load_loops()
# The collector writes to the objects that it visits, and so would copy the memory that all processes share.
gc.collect()
gc.freeze()
