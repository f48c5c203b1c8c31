"""The kinds that reports may have."""

from __future__ import annotations

from services.validator.domain.errors import ReportTypeUnknown
from services.validator.domain.kinds import BUILT_IN_KINDS, ReportKind


class KindCatalog:
    """The built-in kinds."""

    async def kind(self, name: str) -> ReportKind:
        """The kind of this name. Raises ReportTypeUnknown."""
        kind = BUILT_IN_KINDS.get(name)
        if kind is None:
            raise ReportTypeUnknown()
        return kind
