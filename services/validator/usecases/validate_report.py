"""Checks one report given as JSON text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from chassis.errors import shorten
from chassis.json_texts import parse_strict_json
from services.validator.domain.errors import ReportNotJson
from services.validator.domain.findings import ValidationResult
from services.validator.domain.kinds import ReportKind
from services.validator.domain.wording import LITERAL, PhraseFinders, Wording
from services.validator.usecases.kinds import Kinds
from services.validator.usecases.ports import Vocabulary

T = TypeVar("T")

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

        def parse_and_validate() -> ValidationResult:
            return kind.validate(parse_json(report_json), valid_node_ids, words)

        return await run_check(parse_and_validate, kind, words, len(report_json))


async def run_check(check: Callable[[], T], kind: ReportKind, words: PhraseFinders, characters: int) -> T:
    """Return the result of a check of a report with so many characters; a check that may take long has a thread."""
    takes_long = kind.takes_long or words is not LITERAL or characters > INLINE_CHARS
    return await asyncio.to_thread(check) if takes_long else check()


def parse_json(text: str) -> object:
    """Return the JSON value of a text. Raises ReportNotJson."""
    try:
        return parse_strict_json(text)
    except RecursionError:
        raise ReportNotJson("report_json is nested too deeply") from None
    except ValueError as error:
        raise ReportNotJson(f"report_json must be JSON text: {shorten(str(error))}") from None
