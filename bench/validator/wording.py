"""Precision and recall of both ways of looking for words, on the labelled set of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from services.validator.adapters.linguistic import LinguisticFinders, SudachiTokenizer
from services.validator.domain.wording import ADVISOR_WORDS, LITERAL, ORGANIZER_PHRASES, PhraseFinder, PhraseFinders

LABELLED = Path(__file__).parents[2] / "services/validator/tests/wording.tsv"
PHRASES = {"organizer": ORGANIZER_PHRASES, "advisor": ADVISOR_WORDS}


def wording_rows() -> list[dict[str, Any]]:
    """Return one row per way and kind."""
    lines = [line.split("\t") for line in LABELLED.read_text(encoding="utf-8").splitlines()]
    ways: dict[str, PhraseFinders] = {"literal": LITERAL, "linguistic": LinguisticFinders(SudachiTokenizer())}
    return [
        {
            "wording": name,
            "kind": kind,
            **_outcome(words.get_finder(phrases), [line for line in lines if line[0] == kind]),
        }
        for name, words in ways.items()
        for kind, phrases in PHRASES.items()
    ]


def _outcome(finder: PhraseFinder, lines: list[list[str]]) -> dict[str, Any]:
    outcomes = [(label == "1", finder.occurs_in(text)) for _, label, text in lines]
    true = sum(wanted and found for wanted, found in outcomes)
    found, wanted = sum(found for _, found in outcomes), sum(wanted for wanted, _ in outcomes)
    return {"forbidden": wanted, "fine": len(lines) - wanted, "precision": true / found, "recall": true / wanted}
