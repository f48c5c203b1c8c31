"""Histories, rankings and positions as text (spec section 3)."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from libs.prompts.contexts import RoundState
from libs.prompts.labels import JAPANESE, Labels

Ranking = Sequence[Mapping[str, Any]]
"""Rows `{team_id, team_name, max_score, total_rounds}`, best first."""


def format_submission_history(round_history: Sequence[RoundState], labels: Labels = JAPANESE) -> str:
    """Return all rounds in list order, with one blank line between them (B-21)."""
    return "\n\n".join(_format_round(state, labels) for state in round_history) or labels.no_history


def _format_round(state: RoundState, labels: Labels) -> str:
    return "\n".join(
        [
            labels.round_heading.format(round_number=state.round_number),
            labels.submission,
            state.submission_content,
            "",
            labels.score.format(score=state.evaluation_score),
            labels.score_details,
            json.dumps(state.score_details, ensure_ascii=False, indent=2),
        ]
    )


def format_ranking_table(
    ranking: Ranking | None, team_id: str, team_name: str | None = None, labels: Labels = JAPANESE
) -> str:
    """Return the ranking as a table in which the row of `team_id` is marked (B-22 to B-24).

    `team_name` stands in where the team's own row has no name.
    """
    if not ranking:
        return labels.no_ranking
    rows = [
        labels.ranking_columns,
        *(_format_row(rank, entry, team_id, team_name) for rank, entry in enumerate(ranking, 1)),
    ]
    widths = [max(display_width(row[column]) for row in rows) for column in range(3)]
    lines = [" | ".join(labels.ranking_columns)]
    for row, entry in zip(rows[1:], ranking, strict=True):
        cells = [cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=False)]
        mark = labels.own_team if entry["team_id"] == team_id else ""
        lines.append(" | ".join([*cells, row[3]]) + mark)
    return "\n".join(lines)


def _format_row(rank: int, entry: Mapping[str, Any], team_id: str, team_name: str | None) -> tuple[str, str, str, str]:
    name = entry.get("team_name") or (team_name if entry["team_id"] == team_id else None) or ""
    return (str(rank), _format_cell(entry["team_id"]), _format_cell(name), f"{entry['max_score']:.2f}")


def _format_cell(value: object) -> str:
    """Return `value` on one line, so that a team's name cannot look like a row."""
    return " ".join(str(value).splitlines())


def display_width(text: str) -> int:
    """Return the columns of a text: two for East Asian wide and full-width characters, one for others (B-24)."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def generate_position_message(position: int | None, total_teams: int | None, labels: Labels = JAPANESE) -> str:
    """Return the position of a team as a sentence (B-25 to B-27). Raises ValueError for an impossible position."""
    if position is None or total_teams is None:
        return labels.no_position
    if total_teams < 1:
        raise ValueError(f"Invalid total_teams: {total_teams}")
    if not 1 <= position <= total_teams:
        raise ValueError(f"Invalid position: {position} (total_teams: {total_teams})")
    message = labels.first if position == 1 else labels.upper if position <= 3 else labels.position
    return message.format(total=total_teams, position=position)
