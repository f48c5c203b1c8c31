"""The written forms of a playbook are read back as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.curator.domain import formats
from services.curator.domain.errors import InvalidBullet, NotWritableAsText, UnreadablePlaybook
from services.curator.domain.formats import PlaybookFormat
from services.curator.domain.playbook import Bullet, Playbook

lines = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
ids = st.text(st.characters(codec="utf-8", exclude_characters="\x00\n]"), min_size=1, max_size=12)
sections = st.from_regex(r"[a-z0-9]{1,8}(_[a-z0-9]{1,8}){0,3}", fullmatch=True) | st.sampled_from(
    ["APIs TO USE", "Troubleshooting: pitfalls", "日本語の節", "", "a__b"]
)


def bullet(bullet_id: str, section: str, content: str, helpful: int = 0, harmful: int = 0) -> Bullet:
    return Bullet(
        id=bullet_id, section=section, content=content, searchable_text=content, helpful=helpful, harmful=harmful
    )


counted = st.lists(
    st.builds(bullet, ids, sections, lines, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=6
)
plain = st.lists(st.builds(bullet, ids, sections, lines), max_size=6)


@given(counted)
def test_the_counted_dialect_is_lossless(bullets: list[Bullet]) -> None:
    text = formats.encode_playbook(Playbook(bullets=bullets), PlaybookFormat.COUNTED)
    assert formats.parse_playbook(text, PlaybookFormat.COUNTED).bullets == bullets


@given(plain)
def test_the_plain_dialect_is_lossless_but_for_counters(bullets: list[Bullet]) -> None:
    text = formats.encode_playbook(Playbook(bullets=bullets), PlaybookFormat.PLAIN)
    assert formats.parse_playbook(text, PlaybookFormat.PLAIN).bullets == bullets


@given(counted)
def test_the_json_form_is_lossless(bullets: list[Bullet]) -> None:  # C-17, C-19, C-21
    # Feature: self-reflection-system, Property 3: save then load gives an equal playbook except updated_at
    playbook = Playbook(bullets=bullets)
    text = formats.encode_playbook(playbook, PlaybookFormat.JSON)
    assert formats.parse_playbook(text, formats.detect_format(text)) == playbook


def test_json_is_indented_and_japanese_stays_as_it_is() -> None:  # C-17
    text = formats.encode_playbook(Playbook(bullets=[bullet("a", "s", "日本語")]), PlaybookFormat.JSON)
    assert '\n  "bullets": [\n    {\n      "id": "a",' in text
    assert '"content": "日本語"' in text


def test_a_naive_time_stays_naive() -> None:  # C-20
    text = (
        '{"metadata": {"created_at": "2024-01-02T03:04:05", "updated_at": "2024-01-02T03:04:05+09:00"}, "bullets": []}'
    )
    playbook = formats.parse_playbook(text, PlaybookFormat.JSON)
    assert playbook.metadata.created_at.tzinfo is None
    assert '"created_at": "2024-01-02T03:04:05"' in formats.encode_playbook(playbook, PlaybookFormat.JSON)


def test_the_counted_dialect_has_the_specified_text() -> None:
    bullets = [
        bullet("er-00001", "error_recovery", "Retry once.", 5, 1),
        bullet("er-00002", "error_recovery", "First line\n\nthird"),
        bullet("x", "Odd: section", ""),
    ]
    assert formats.encode_playbook(Playbook(bullets=bullets), PlaybookFormat.COUNTED) == (
        "## ERROR RECOVERY\n"
        "[er-00001] helpful=5 harmful=1 :: Retry once.\n"
        "[er-00002] helpful=0 harmful=0 :: First line\n    \n    third\n"
        "## Odd: section\n"
        "[x] helpful=0 harmful=0 :: \n"
    )


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('\n {"bullets": []}', PlaybookFormat.JSON),
        ("## A\n\n[a] helpful=1 harmful=0 :: text\n", PlaybookFormat.COUNTED),
        ("## A\n[a] helpful=1 is what it says\n", PlaybookFormat.PLAIN),
        ("", PlaybookFormat.PLAIN),
    ],
)
def test_the_format_is_detected_by_the_content(text: str, form: PlaybookFormat) -> None:
    assert formats.detect_format(text) is form


@pytest.mark.parametrize(
    ("text", "form", "named"),
    [
        ("## A\n[a] fine\nneither\n", PlaybookFormat.PLAIN, 'line 3: "neither" is neither a heading nor a bullet'),
        ("[a] no counters\n", PlaybookFormat.COUNTED, "line 1: bullet a has no `helpful=N harmful=N :: text`"),
        ('{"bullets": [{"id": 1}]}', PlaybookFormat.JSON, "bullets[0].id:"),
        ("{", PlaybookFormat.JSON, "the file: is not JSON"),
        ('{"bullets": "x"}', PlaybookFormat.JSON, "bullets: "),
    ],
)
def test_an_error_names_the_unreadable_line(text: str, form: PlaybookFormat, named: str) -> None:  # C-15
    with pytest.raises(UnreadablePlaybook) as caught:
        formats.parse_playbook(text, form)
    assert caught.value.message.startswith(named)


def test_a_bullet_out_of_bounds_is_named() -> None:
    with pytest.raises(InvalidBullet, match=r"bullets\[1\]\.content"):
        formats.parse_playbook(f"[a] fine\n[b] {'x' * 20_001}\n", PlaybookFormat.PLAIN)


@pytest.mark.parametrize(
    "odd",
    [bullet("a]b", "s", "c"), bullet("a\nb", "s", "c"), bullet("a", "two\nlines", "c"), bullet("a", "OTHERS", "c")],
)
def test_bullets_that_text_cannot_represent_are_refused_unchanged(odd: Bullet) -> None:
    with pytest.raises(NotWritableAsText, match="export as JSON"):
        formats.encode_playbook(Playbook(bullets=[odd]), PlaybookFormat.PLAIN)
