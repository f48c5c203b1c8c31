"""Labels and messages that formatters write; `labels.toml` holds them by language."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

Language = Literal["ja", "en"]


@dataclass(frozen=True, slots=True)
class Labels:
    """The texts of one language; the formatters fill the `{…}` parts."""

    no_history: str
    round_heading: str
    submission: str
    score: str
    score_details: str
    no_ranking: str
    ranking_columns: tuple[str, str, str, str]
    own_team: str
    no_position: str
    first: str
    upper: str
    position: str


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LABELS = TypeAdapter(Mapping[Language, Labels]).validate_python(_TEXTS)
JAPANESE = LABELS["ja"]
