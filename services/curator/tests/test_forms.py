"""The written forms of a playbook are read back as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.curator.domain import forms
from services.curator.domain.errors import InvalidBullet, NotWritableAsText, UnreadablePlaybook
from services.curator.domain.forms import Form
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
    text = forms.write(Playbook(bullets=bullets), Form.COUNTED)
    assert forms.read(text, Form.COUNTED).bullets == bullets


@given(plain)
def test_the_plain_dialect_is_lossless_but_for_counters(bullets: list[Bullet]) -> None:
    text = forms.write(Playbook(bullets=bullets), Form.PLAIN)
    assert forms.read(text, Form.PLAIN).bullets == bullets


@given(counted)
def test_the_json_form_is_lossless(bullets: list[Bullet]) -> None:  # C-17, C-19, C-21
    # Feature: self-reflection-system, Property 3: save then load gives an equal playbook except updated_at
    playbook = Playbook(bullets=bullets)
    text = forms.write(playbook, Form.JSON)
    assert forms.read(text, forms.form_of(text)) == playbook


def test_json_is_indented_and_japanese_stays_as_it_is() -> None:  # C-17
    text = forms.write(Playbook(bullets=[bullet("a", "s", "日本語")]), Form.JSON)
    assert '\n  "bullets": [\n    {\n      "id": "a",' in text
    assert '"content": "日本語"' in text


def test_a_naive_time_stays_naive() -> None:  # C-20
    text = '{"metadata": {"created_at": "2024-01-02T03:04:05", "updated_at": "2024-01-02T03:04:05+09:00"}}'
    playbook = forms.read(text, Form.JSON)
    assert playbook.metadata.created_at.tzinfo is None
    assert '"created_at": "2024-01-02T03:04:05"' in forms.write(playbook, Form.JSON)


def test_the_counted_dialect_as_it_is_written() -> None:
    bullets = [
        bullet("er-00001", "error_recovery", "Retry once.", 5, 1),
        bullet("er-00002", "error_recovery", "First line\n\nthird"),
        bullet("x", "Odd: section", ""),
    ]
    assert forms.write(Playbook(bullets=bullets), Form.COUNTED) == (
        "## ERROR RECOVERY\n"
        "[er-00001] helpful=5 harmful=1 :: Retry once.\n"
        "[er-00002] helpful=0 harmful=0 :: First line\n    \n    third\n"
        "## Odd: section\n"
        "[x] helpful=0 harmful=0 :: \n"
    )


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('\n {"bullets": []}', Form.JSON),
        ("## A\n\n[a] helpful=1 harmful=0 :: text\n", Form.COUNTED),
        ("## A\n[a] helpful=1 is what it says\n", Form.PLAIN),
        ("", Form.PLAIN),
    ],
)
def test_the_form_is_told_by_the_content(text: str, form: Form) -> None:
    assert forms.form_of(text) is form


@pytest.mark.parametrize(
    ("text", "form", "named"),
    [
        ("## A\n[a] fine\nneither\n", Form.PLAIN, 'line 3: "neither" is neither a heading nor a bullet'),
        ("[a] no counters\n", Form.COUNTED, "line 1: bullet a has no `helpful=N harmful=N :: text`"),
        ('{"bullets": [{"id": 1}]}', Form.JSON, "bullets[0].id:"),
        ("{", Form.JSON, "the file: Invalid JSON"),
        ('{"bullets": "x"}', Form.JSON, "bullets: "),
    ],
)
def test_what_cannot_be_read_is_named(text: str, form: Form, named: str) -> None:  # C-15
    with pytest.raises(UnreadablePlaybook) as caught:
        forms.read(text, form)
    assert caught.value.message.startswith(named)


def test_a_bullet_out_of_bounds_is_named() -> None:
    with pytest.raises(InvalidBullet, match=r"bullets\[1\]\.content"):
        forms.read(f"[a] fine\n[b] {'x' * 20_001}\n", Form.PLAIN)


@pytest.mark.parametrize(
    "odd",
    [bullet("a]b", "s", "c"), bullet("a\nb", "s", "c"), bullet("a", "two\nlines", "c"), bullet("a", "OTHERS", "c")],
)
def test_what_text_cannot_hold_is_refused_not_bent(odd: Bullet) -> None:
    with pytest.raises(NotWritableAsText, match="export as JSON"):
        forms.write(Playbook(bullets=[odd]), Form.PLAIN)
