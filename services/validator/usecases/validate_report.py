"""Checks one report given as JSON text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import NoReturn

from chassis.errors import shortened
from services.validator.domain.errors import ReportNotJson
from services.validator.domain.findings import ValidationResult
from services.validator.domain.kinds import ReportKind, Wording
from services.validator.domain.wording import PhraseFinder
from services.validator.usecases.kinds import Kinds, WordFinders

INLINE_CHARS = 32_768
"""Reports up to this size take about a millisecond and are checked on the event loop; larger ones in a thread."""


class ValidateReport:
    """Validation of reports of all kinds."""

    def __init__(self, kinds: Kinds, words: WordFinders) -> None:
        self._kinds = kinds
        self._words = words

    async def __call__(
        self, type_name: str, report_json: str, valid_node_ids: Sequence[str], wording: Wording
    ) -> ValidationResult:
        """All findings on a report. Raises ReportTypeUnknown, ReportNotJson."""
        kind = await self._kinds.kind(type_name)
        phrases = await self._words.finder(kind, wording)
        if kind.takes_long or wording is Wording.LINGUISTIC or len(report_json) > INLINE_CHARS:
            return await asyncio.to_thread(_checked, kind, report_json, valid_node_ids, phrases)
        return _checked(kind, report_json, valid_node_ids, phrases)


def _checked(kind: ReportKind, text: str, valid_node_ids: Sequence[str], phrases: PhraseFinder) -> ValidationResult:
    return kind.validate(json_value(text), valid_node_ids, phrases)


def json_value(text: str) -> object:
    """The JSON value of a text. Raises ReportNotJson."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ReportNotJson("report_json is nested too deeply") from None
    except ValueError as error:
        raise ReportNotJson(f"report_json must be JSON text: {shortened(str(error))}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
