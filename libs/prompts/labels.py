"""Every label and message that formatters write, one set per language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Language = Literal["ja", "en"]


@dataclass(frozen=True, slots=True)
class Labels:
    """The words of one language; `{...}` parts are filled by the formatters."""

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


JAPANESE = Labels(
    no_history="まだ過去のSubmissionはありません。",
    round_heading="## ラウンド {round_number}",
    submission="**提出内容:**",
    score="**スコア:** {score:.2f}/100",
    score_details="**スコア詳細:**",
    no_ranking="まだランキング情報がありません。",
    ranking_columns=("順位", "チームID", "チーム名", "スコア"),
    own_team=" ← あなたのチーム",
    no_position="まだあなたのチームの順位はありません。",
    first="🏆 おめでとうございます！現在、{total}チーム中1位です。",
    upper="現在、{total}チーム中{position}位です。上位を維持しています。",
    position="現在、{total}チーム中{position}位です。",
)

ENGLISH = Labels(
    no_history="There are no submissions yet.",
    round_heading="## Round {round_number}",
    submission="**Submission:**",
    score="**Score:** {score:.2f}/100",
    score_details="**Score details:**",
    no_ranking="There is no ranking yet.",
    ranking_columns=("Rank", "Team ID", "Team name", "Score"),
    own_team=" ← your team",
    no_position="Your team has no position yet.",
    first="🏆 Congratulations! You are 1st of {total} teams.",
    upper="You are number {position} of {total} teams, among the leaders.",
    position="You are number {position} of {total} teams.",
)

LABELS: Mapping[Language, Labels] = {"ja": JAPANESE, "en": ENGLISH}
