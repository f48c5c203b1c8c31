"""Which kinds of reports there are, and with which words each is checked."""

from __future__ import annotations

from typing import Protocol

from services.validator.domain.kinds import BUILT_IN_KINDS, ReportKind, Wording
from services.validator.domain.wording import PhraseFinder


class Kinds(Protocol):
    """The kinds that reports may have."""

    async def kind(self, name: str) -> ReportKind:
        """The kind of this name. Raises ReportTypeUnknown."""
        ...


class WordFinders(Protocol):
    """Chooses how the words of a kind are looked for."""

    async def finder(self, kind: ReportKind, wording: Wording) -> PhraseFinder:
        """The finder of a kind's words in a wording mode."""
        ...


def is_built_in(name: str) -> bool:
    """True for the kinds of the specification."""
    return name in BUILT_IN_KINDS
