"""The curation prompt (section 5) and the sections of a dataset (section 3)."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.curator.adapters.sections import SHIPPED_FILE, SectionLoader
from services.curator.domain.curation import Lesson, SectionDefinition
from services.curator.domain.errors import InvalidDatasetName
from services.curator.domain.playbook import Bullet
from services.curator.prompts.builder import CuratorPromptBuilder
from services.curator.prompts.texts import OUTLINE_CHARS, OUTLINE_SECTIONS, outline


def insight(key_insight: str) -> Lesson:
    return Lesson("r", "e", "c", "a", key_insight)


def bullet(bullet_id: str, content: str) -> Bullet:
    return Bullet(id=bullet_id, section="general", content=content, searchable_text=content)


text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
BUILT_IN = CuratorPromptBuilder("nowhere")


@given(
    st.lists(text, min_size=1, max_size=4),
    st.lists(st.tuples(text, text), min_size=1, max_size=4),
    st.lists(st.tuples(text, text), min_size=1, max_size=4),
)
def test_the_prompt_holds_what_it_is_given(  # C-47 to C-51, C-78
    insights: list[str], bullets: list[tuple[str, str]], sections: list[tuple[str, str]]
) -> None:
    # Feature: curator-agent, Property 7: prompt contains each key_insight, bullet content and id
    prompt = BUILT_IN.build(
        [insight(lesson) for lesson in insights],
        [bullet(*stored) for stored in bullets],
        [SectionDefinition(*section) for section in sections],
        "d",
    )
    for lesson in insights:
        assert lesson in prompt
    for bullet_id, content in bullets:
        assert f"[{bullet_id}] general\n{content}" in prompt
    for name, description in sections:
        assert f"- {name}: {description}" in prompt


def test_braces_in_values_stay_and_doubled_ones_become_single() -> None:  # C-46, C-47
    prompt = BUILT_IN.build([insight('{"a": 1} {bullets}')], [], [], "d")
    assert '## Insights\n{"a": 1} {bullets}\n' in prompt
    assert '{\n  "deltas": [\n    {\n      "type": "ADD" | "UPDATE" | "DELETE",' in prompt


def test_the_built_in_text_with_nothing_to_show() -> None:  # C-49 to C-51, C-53
    prompt = BUILT_IN.build([], [], [], "d")
    assert prompt.startswith("あなたはPlaybook（知識ベース）のキュレーターである.\n以下のInsights（教訓）を分析し")
    for placeholder in ("(Insightsはありません)", "(Bulletはありません)", "(セクション定義はありません)"):
        assert placeholder in prompt


def test_bullets_are_parted_by_one_blank_line() -> None:  # C-50
    prompt = BUILT_IN.build([], [bullet("a", "one"), bullet("b", "two")], [], "d")
    assert "[a] general\none\n\n[b] general\ntwo\n" in prompt


def test_english_is_a_choice() -> None:
    prompt = CuratorPromptBuilder("nowhere", "en").build([insight("x")], [], [], "d")
    assert prompt.startswith("You are the curator of a playbook")


def test_the_datasets_template_wins_then_the_default_then_the_built_in(tmp_path: Path) -> None:  # C-44, C-45
    builder = CuratorPromptBuilder(tmp_path)
    (tmp_path / "default.txt").write_text("default {insights}", encoding="utf-8")
    (tmp_path / "d.txt").write_text("本 {insights} {bullets} {sections} {{}}", encoding="utf-8")
    assert builder.build([insight("x")], [], [], "d") == "本 x (Bulletはありません) (セクション定義はありません) {}"
    assert builder.build([insight("x")], [], [], "other") == "default x"


@pytest.mark.parametrize("broken", ["{oops}", "{", "}", "{0}", "{insights.x}", "{insights!r}"])
def test_a_broken_template_is_logged_and_the_next_one_used(  # C-48
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    (tmp_path / "d.txt").write_text(broken, encoding="utf-8")
    (tmp_path / "default.txt").write_text("fine {insights}", encoding="utf-8")
    assert CuratorPromptBuilder(tmp_path).build([insight("x")], [], [], "d") == "fine x"
    assert "d.txt" in caplog.text


def test_a_template_is_never_looked_up_under_an_invalid_name(tmp_path: Path) -> None:  # C-82
    with pytest.raises(InvalidDatasetName):
        CuratorPromptBuilder(tmp_path).build([], [], [], "../d")


def test_of_bullets_that_are_not_shown_there_is_an_outline() -> None:
    others = [bullet(f"b-{number:05d}", f"lesson {number} of\nmany {'words ' * 20}") for number in range(500)]
    others += [bullet("r-00001", "short {x}").replace_fields(section="rare")]
    prompt = BUILT_IN.build([], [bullet("a", "one")], [], "d", others)
    assert "[a] general\none\n\n（502件のBulletのうち、関連する1件を上に示した。" in prompt
    [general, rare] = [line for line in prompt.splitlines() if line.startswith(("- general", "- rare"))]
    assert general.startswith("- general (500): [b-00000] lesson 0 of many words")
    shown = general.count("[b-")
    assert general.endswith(f"… (+{500 - shown})")
    assert rare == "- rare (1): [r-00001] short {x}"
    assert "Above are the 1 of 502" in CuratorPromptBuilder("nowhere", "en").build(
        [], [bullet("a", "one")], [], "d", others
    )


@given(st.lists(st.tuples(text, text), min_size=1, max_size=300))
def test_an_outline_is_bounded(bullets: list[tuple[str, str]]) -> None:
    text = outline([bullet("b", content).replace_fields(section=section) for section, content in bullets])
    assert len(text) <= OUTLINE_CHARS + 100 * OUTLINE_SECTIONS


def test_the_shipped_sections(tmp_path: Path) -> None:  # C-31
    names = [section.name for section in SectionLoader(SHIPPED_FILE).load("appworld")]
    assert "strategies_and_hard_rules" in names


def test_sections_keep_their_order_and_bad_ones_are_left_out(  # C-27, C-28, C-30
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sections.yaml"
    path.write_text(
        "d:\n- {name: b, description: 二}\n- {name: only}\n- text\n- {name: a, description: one}\n", encoding="utf-8"
    )
    assert SectionLoader(path).load("d") == [SectionDefinition("b", "二"), SectionDefinition("a", "one")]
    assert caplog.text.count("has no name or description") == 2


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "{unparsable: [",
        "- a list",
        "other: []",
        "d: text",
        "d: {name: x}",
        "!!python/object/apply:os.getcwd []",
    ],
)
def test_sections_that_cannot_be_read_are_none(  # C-29
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    path = tmp_path / "sections.yaml"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert SectionLoader(path).load("d") == []
    assert caplog.records


async def test_an_edited_sections_file_is_read_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:  # C-28
    path = tmp_path / "sections.yaml"
    loader = SectionLoader(path)
    assert await loader.read("d") == []
    path.write_text("d: [{name: a, description: one}]", encoding="utf-8")
    assert await loader.read("d") == [SectionDefinition("a", "one")]
    status = path.stat()
    path.write_text("d: [{name: b, description: two}]", encoding="utf-8")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert await loader.read("d") == [SectionDefinition("a", "one")], "same version: not parsed again"
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert await loader.read("d") == [SectionDefinition("b", "two")]
    path.unlink()
    assert await loader.read("d") == []
