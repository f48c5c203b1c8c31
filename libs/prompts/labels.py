"""Labels and messages that formatters write; `labels.toml` holds them by language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from libs.prompts.language import load_texts


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


LABELS = load_texts(Path(__file__).with_suffix(".toml"), Labels)
JAPANESE = LABELS["ja"]
