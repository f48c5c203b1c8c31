"""Checks one report given as JSON text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chassis.errors import shorten
from chassis.json_texts import parse_strict_json
from services.validator.domain.errors import ReportNotJson
from services.validator.domain.findings import ValidationResult
from services.validator.domain.kinds import ReportKind
from services.validator.domain.wording import PhraseFinders, Wording
from services.validator.usecases.kinds import Kinds
from services.validator.usecases.ports import Vocabulary

INLINE_CHARS = 32_768
"""Reports up to this size take about a millisecond and are checked on the event loop; larger ones in a thread."""


class ValidateReport:
    """Validation of reports of all kinds."""

    def __init__(self, kinds: Kinds, vocabulary: Vocabulary) -> None:
        self._kinds = kinds
        self._vocabulary = vocabulary

    async def __call__(
        self, type_name: str, report_json: str, valid_node_ids: Sequence[str], wording: Wording
    ) -> ValidationResult:
        """Return all findings on a report. Raises ReportTypeUnknown, ReportNotJson."""
        kind = await self._kinds.get_kind(type_name)
        words = await self._vocabulary.list_words(wording)
        if kind.takes_long or wording is Wording.LINGUISTIC or len(report_json) > INLINE_CHARS:
            return await asyncio.to_thread(_validate_text, kind, report_json, valid_node_ids, words)
        return _validate_text(kind, report_json, valid_node_ids, words)


def _validate_text(
    kind: ReportKind, text: str, valid_node_ids: Sequence[str], words: PhraseFinders
) -> ValidationResult:
    return kind.validate(parse_json(text), valid_node_ids, words)


def parse_json(text: str) -> object:
    """Return the JSON value of a text. Raises ReportNotJson."""
    try:
        return parse_strict_json(text)
    except RecursionError:
        raise ReportNotJson("report_json is nested too deeply") from None
    except ValueError as error:
        raise ReportNotJson(f"report_json must be JSON text: {shorten(str(error))}") from None
