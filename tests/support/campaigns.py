"""Campaigns: tests that repeat kills, random operations or load, at one of two sizes.

What such a test repeats finds more the longer it goes on, and means the same each time. So it has a short size, with
which a change is tried, and a full one, the number or the time that an issue names, with which .ci/run accepts it.
Sizes say how often, how many or how long. What is asserted of each repetition is the same at both, and where the steps
are the point (a kill at every one of them) the short size has them all.
"""

from __future__ import annotations

import os
from typing import TypeVar

VARIABLE = "HANSEI_CAMPAIGNS"
SIZES = ("short", "full")
Size = TypeVar("Size")


def campaign_size(full: Size, short: Size) -> Size:
    """Return the size of a campaign in this run: `full` only if `HANSEI_CAMPAIGNS` is `full`.

    Raises ValueError for anything else.
    """
    chosen = os.environ.get(VARIABLE) or "short"
    if chosen not in SIZES:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(SIZES)} (got {chosen[:40]!r})")
    return full if chosen == "full" else short
