"""Campaigns: tests that repeat kills, random operations or load, at a short size, at the full one, or in shares.

What such a test repeats finds more the longer it goes on, and means the same each time. So it has a short size, with
which a change is tried, and a full one, the number or the time that an issue names. Sizes say how often, how many or
how long. What is asserted of each repetition is the same at both, and where the steps are the point (a kill at every
one of them) the short size has them all.

All full campaigns together take longer than everything else, so a run of .ci/run takes one of `SHARES` shares. A
campaign whose repetitions are independent is split: each share has other cases of it. One in which the whole size is
the point belongs to one share, and is short in the others. The hash of the commit chooses the share, so that successive
commits cover them all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

VARIABLE = "HANSEI_CAMPAIGNS"
FILES_OF_SHARES: tuple[frozenset[str], ...] = (
    frozenset({"test_playbook_engines"}),
    frozenset({"test_large_playbooks", "test_faults_clock"}),
    frozenset({"test_bulk_kills", "test_http_proposals"}),
    frozenset({"test_upgrade_replicas", "test_index"}),
    frozenset({"test_multilingual", "test_machine", "test_learning"}),
    frozenset({"test_rollout", "test_faults_services", "test_faults_models", "test_guarantee", "test_engines"}),
)
"""The files whose campaigns have their full size in each share, by measured seconds, so that all shares take about as
long (docs/adr/240)."""
SHARES = len(FILES_OF_SHARES)
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
    """Return the share of the campaigns of a test file. Raises ValueError for a file that is in none."""
    name = module.rpartition(".")[2]
    for share, files in enumerate(FILES_OF_SHARES):
        if name in files:
            return share
    raise ValueError(f"{name} must be in one of FILES_OF_SHARES in {__name__}: add it to the one that takes least")


def campaign_size(full: Size, short: Size) -> Size:
    """Return the size of a campaign of the calling module in this run. Raises ValueError for an unknown choice."""
    choice = CampaignChoice.from_environment()
    share = find_share(sys._getframe(1).f_globals["__name__"])
    return full if choice.full or choice.share == share else short


def campaign_cases(cases: Sequence[Case], short: int) -> Sequence[Case]:
    """Return the cases of a split campaign in this run: all, those of one share, or the first `short` ones."""
    choice = CampaignChoice.from_environment()
    if choice.share is not None:
        return cases[choice.share :: SHARES]
    return cases if choice.full else cases[:short]
