"""Histories, rankings, positions and the clock."""

from __future__ import annotations

from datetime import datetime, tzinfo

import pytest

from libs.prompts.clock import get_current_datetime_with_timezone
from libs.prompts.formatters import format_ranking_table, format_submission_history, generate_position_message


def test_an_empty_history_has_a_placeholder() -> None:  # B-21
    assert format_submission_history([]) == "まだ過去のSubmissionはありません。"


@pytest.mark.parametrize("ranking", [None, []])
def test_a_missing_ranking_has_a_placeholder(ranking: list[dict[str, object]] | None) -> None:  # B-22
    assert format_ranking_table(ranking, "t") == "まだランキング情報がありません。"


def row(team_id: str, name: str, score: float) -> dict[str, object]:
    return {"team_id": team_id, "team_name": name, "max_score": score, "total_rounds": 1}


def test_a_ranking_is_formatted_as_a_table() -> None:  # B-23, B-24
    rows = [row("team-001", "Team Alpha", 95.5), row("team-002", "Team Beta", 90.25)]
    assert (
        format_ranking_table(rows, "team-002")
        == """順位 | チームID | チーム名 | スコア
1    | team-001 | Team Alpha | 95.50
2    | team-002 | Team Beta  | 90.25 ← あなたのチーム"""
    )
    rows = [row("t1", "チームさくら", 88.0), row("team-010", "B", 90.0)]
    assert (
        format_ranking_table(rows, "t1")
        == """順位 | チームID | チーム名 | スコア
1    | t1       | チームさくら | 88.00 ← あなたのチーム
2    | team-010 | B            | 90.00"""
    )


def test_a_name_cannot_look_like_a_row() -> None:
    table = format_ranking_table([row("a", "x\n1 | b | y | 99.00", 1.0)], "b")
    assert len(table.split("\n")) == 2


def test_the_own_name_fills_in_for_a_missing_one() -> None:
    assert "| Mine |" in format_ranking_table([row("a", "", 1.0)], "a", "Mine").replace("    ", "")


@pytest.mark.parametrize(
    ("position", "total", "message"),
    [
        (1, 1, "🏆 おめでとうございます！現在、1チーム中1位です。"),
        (1, 5, "🏆 おめでとうございます！現在、5チーム中1位です。"),
        (2, 5, "現在、5チーム中2位です。上位を維持しています。"),
        (3, 3, "現在、3チーム中3位です。上位を維持しています。"),
        (4, 5, "現在、5チーム中4位です。"),
        (None, 5, "まだあなたのチームの順位はありません。"),
        (1, None, "まだあなたのチームの順位はありません。"),
    ],
)
def test_a_position_has_its_message(position: int | None, total: int | None, message: str) -> None:  # B-25, B-27
    assert generate_position_message(position, total) == message


@pytest.mark.parametrize(
    ("position", "total", "message"),
    [
        (1, 0, "Invalid total_teams: 0"),
        (0, 0, "Invalid total_teams: 0"),
        (0, 3, r"Invalid position: 0 \(total_teams: 3\)"),
        (4, 3, r"Invalid position: 4 \(total_teams: 3\)"),
    ],
)
def test_impossible_positions_are_refused(position: int, total: int, message: str) -> None:  # B-26
    with pytest.raises(ValueError, match=f"^{message}$"):
        generate_position_message(position, total)


def clock_at(microsecond: int) -> object:
    def now(zone: tzinfo) -> datetime:
        return datetime(2025, 11, 25, 10, 0, 0, microsecond, tzinfo=zone)

    return now


@pytest.mark.parametrize("environ", [{}, {"TZ": ""}, {"TZ": "  "}])
def test_utc_is_the_default(environ: dict[str, str]) -> None:  # B-28
    assert get_current_datetime_with_timezone(environ, clock_at(0)) == "2025-11-25T10:00:00+00:00"  # type: ignore[arg-type]


def test_a_time_zone_is_chosen_by_name() -> None:  # B-29
    shown = get_current_datetime_with_timezone({"TZ": "Asia/Tokyo"}, clock_at(123456))  # type: ignore[arg-type]
    assert shown == "2025-11-25T10:00:00.123456+09:00"


@pytest.mark.parametrize("name", ["Nowhere/X", "/etc/x", "../x", ":Asia/Tokyo", "JST-9", "Asia", "a\x00b", "x" * 300])
def test_any_text_that_is_no_zone_is_refused(name: str) -> None:  # B-30
    with pytest.raises(ValueError, match="Invalid timezone") as raised:
        get_current_datetime_with_timezone({"TZ": name})
    assert str(raised.value) == (
        f"Invalid timezone in TZ environment variable: {name}. Valid examples: 'UTC', 'Asia/Tokyo', 'America/New_York'"
    )


def test_the_environment_is_read_at_call_time(monkeypatch: pytest.MonkeyPatch) -> None:  # B-11, B-28
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert get_current_datetime_with_timezone().endswith("+09:00")
