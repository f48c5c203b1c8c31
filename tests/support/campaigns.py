"""Campaigns: tests that repeat kills, random operations or load, at a short size, at the full one, or in shares.

What such a test repeats finds more the longer it goes on, and means the same each time. So it has a short size, with
which a change is tried, and a full one, the number or the time that an issue names. Sizes say how often, how many or
how long. What is asserted of each repetition is the same at both, and where the steps are the point (a kill at every
one of them) the short size has them all.

All full campaigns together take longer than everything else, so a run of .ci/run takes one of `SHARES` shares: its
campaigns have their full size, the others the short one. A campaign that is large by itself is split over the shares.
The hash of the commit chooses the share, so that successive commits cover them all.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

VARIABLE = "HANSEI_CAMPAIGNS"
SHARES = 6
Size = TypeVar("Size")
Case = TypeVar("Case")


@dataclass(frozen=True, slots=True)
class CampaignChoice:
    """The campaigns of a run that have their full size: all, none, or those of one share."""

    full: bool = False
    share: int | None = None

    @classmethod
    def from_environment(cls) -> CampaignChoice:
        """Return the choice of `HANSEI_CAMPAIGNS`; the share is the remainder of its number. Raises ValueError."""
        chosen = os.environ.get(VARIABLE) or "short"
        kind, _, number = chosen.partition(":")
        if kind == "share" and number.isascii() and number.isdecimal():
            return cls(share=int(number) % SHARES)
        if chosen not in ("short", "full"):
            raise ValueError(f"{VARIABLE} must be short, full or share:NUMBER (got {chosen[:40]!r})")
        return cls(full=chosen == "full")


def find_share(module: str) -> int:
    """Return the share of the campaigns of a test file."""
    return zlib.crc32(module.rpartition(".")[2].encode()) % SHARES


def campaign_size(full: Size, short: Size) -> Size:
    """Return the size of a campaign of the calling module in this run. Raises ValueError for an unknown choice."""
    choice = CampaignChoice.from_environment()
    is_chosen = choice.share is not None and choice.share == find_share(sys._getframe(1).f_globals["__name__"])
    return full if choice.full or is_chosen else short


def campaign_cases(cases: Sequence[Case], short: int) -> Sequence[Case]:
    """Return the cases of a split campaign in this run: all, those of one share, or the first `short` ones."""
    choice = CampaignChoice.from_environment()
    if choice.share is not None:
        return cases[choice.share :: SHARES]
    return cases if choice.full else cases[:short]
