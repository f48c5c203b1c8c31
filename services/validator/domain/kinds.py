"""Kinds of reports: the instructions for a model, the check of its answer, and the text for people.

`kinds.toml` holds the instructions of the built-in kinds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from libs.prompts.language import Language
from services.validator.domain.advisor import validate_advisor_report
from services.validator.domain.findings import ValidationResult
from services.validator.domain.organizer import validate_organizer_report
from services.validator.domain.rendering import render_advisor, render_organizer
from services.validator.domain.wording import PhraseFinders

Validate = Callable[[object, Sequence[str], PhraseFinders], ValidationResult]


@dataclass(frozen=True, slots=True)
class KindInstructions:
    """The part of a prompt about a kind: the shape of its JSON, and its rules."""

    shape: str
    rules: str


@dataclass(frozen=True, slots=True)
class ReportKind:
    """One kind of report.

    `focus_needed`: the report is about one node, so there must be one. `takes_long`: a check may take more than
    about a millisecond, so it must not run on the event loop.
    """

    name: str
    title: str
    validate: Validate
    instructions: Mapping[Language, KindInstructions]
    render: Callable[[Mapping[str, Any]], str]
    focus_needed: bool = False
    takes_long: bool = False


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_INSTRUCTIONS = TypeAdapter(Mapping[str, Mapping[Language, KindInstructions]]).validate_python(_TEXTS)

ORGANIZER = ReportKind(
    "organizer",
    "OrganizerReport",
    validate_organizer_report,
    _INSTRUCTIONS["organizer"],
    render_organizer,
)

ADVISOR = ReportKind(
    "advisor",
    "AdvisorReport",
    validate_advisor_report,
    _INSTRUCTIONS["advisor"],
    render_advisor,
    focus_needed=True,
)

BUILT_IN_KINDS: Mapping[str, ReportKind] = {kind.name: kind for kind in (ORGANIZER, ADVISOR)}
