"""Which kinds of reports there are, and how their words are looked for."""

from __future__ import annotations

from typing import Protocol

from services.validator.domain.kinds import ReportKind
from services.validator.domain.wording import Wording, Words


class Kinds(Protocol):
    """The kinds that reports may have."""

    async def kind(self, name: str) -> ReportKind:
        """The kind of this name. Raises ReportTypeUnknown."""
        ...


class Vocabulary(Protocol):
    """The ways of looking for words."""

    async def words(self, wording: Wording) -> Words:
        """The way of a wording mode; what it needs is loaded when it is first wanted."""
        ...
