"""The curation prompt (section 5) and the sections of a dataset (section 3)."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.curator.adapters.sections import SHIPPED_FILE, SectionLoader
from services.curator.domain.curation import DeltaContextItem, Lesson, Proposal, Reflection, SectionDefinition
from services.curator.domain.errors import InvalidDatasetName
from services.curator.domain.playbook import Bullet
from services.curator.domain.review import PendingChange, PendingState
from services.curator.prompts.builder import CuratorPromptBuilder, Material
from services.curator.prompts.texts import OUTLINE_CHARS, OUTLINE_SECTIONS, build_outline
from services.curator.usecases.model_operations import Add, Confirm, Merge, Retire, Rewrite, Skip


def insight(key_insight: str) -> Lesson:
    return Lesson("r", "e", "c", "a", key_insight)


def bullet(bullet_id: str, content: str) -> Bullet:
    return Bullet(id=bullet_id, section="general", content=content, searchable_text=content)


def change(content: str) -> PendingChange:
    proposal = Proposal(DeltaContextItem(type="ADD", section="s", content=content, reasoning="r"))
    time = datetime(2025, 1, 1, tzinfo=UTC)
    return PendingChange("id", "d", proposal, 0, "a", "run-0", "waits", PendingState.WAITING, time, time)


def material(
    insights: Sequence[Lesson] = (),
    bullets: Sequence[Bullet] = (),
    sections: Sequence[SectionDefinition] = (),
    others: Sequence[Bullet] = (),
    **fields: Any,
) -> Material:
    waiting = fields.pop("waiting", {})
    return Material(Reflection(tuple(insights), **fields), bullets, others, sections, waiting)


def build(data: Material, builder: CuratorPromptBuilder | None = None) -> str:
    """Return the user message of the built-in prompt."""
    [(first, _), (second, prompt)] = (builder or BUILT_IN).build_messages(data)
    assert (first, second) == ("system", "human")
    return prompt


text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
BUILT_IN = CuratorPromptBuilder("nowhere")
ENGLISH = CuratorPromptBuilder("nowhere", "en")


@given(
    st.lists(text, min_size=1, max_size=4),
    st.lists(st.tuples(text, text), min_size=1, max_size=4),
    st.lists(st.tuples(text, text), min_size=1, max_size=4),
)
def test_the_prompt_contains_its_inputs(  # C-78
    insights: list[str], bullets: list[tuple[str, str]], sections: list[tuple[str, str]]
) -> None:
    # Feature: curator-agent, Property 7: prompt contains each key_insight, bullet content and id
    prompt = build(
        material(
            [insight(lesson) for lesson in insights],
            [bullet(*stored) for stored in bullets],
            [SectionDefinition(*section) for section in sections],
        )
    )
    for lesson in insights:
        assert lesson in prompt
    for bullet_id, content in bullets:
        assert f"[{bullet_id}] general | sources 0, helpful 0, harmful 0 | {content}" in prompt
    for name, _ in sections:
        assert f"- {name} (" in prompt


def test_the_prompt_has_the_whole_lesson_its_query_outcome_and_waiting_changes() -> None:
    lesson = Lesson("r", "it failed", "no check", "check first", "Check {x}.", (3, 5), "", "mistake", "a", "b")
    data = material([lesson], query="Cancel it", signal="reward", waiting={"w-1": change("It waits.")})
    prompt = build(data, ENGLISH)
    assert (
        "1. Check {x}.\n   what happened: it failed\n   cause: no check\n   better: check first\n   kind: mistake\n"
        "   confirms, says the reflection: [a]\n   contradicts, says the reflection: [b]\n   evidence in steps: 3, 5"
    ) in prompt
    for part in ("Cancel it", "FAILURE, known from the reward of the environment", "[w-1] It waits."):
        assert part in prompt


def test_the_built_in_prompt_works_without_bullets() -> None:
    prompt = build(material())
    for placeholder in (
        "(Insightsはありません)",
        "(Bulletはありません)",
        "(セクション定義はありません)\nふさわしい名前がなければ",
        "(待っている教訓はない)",
    ):
        assert placeholder in prompt


@pytest.mark.parametrize("builder", [BUILT_IN, ENGLISH])
def test_the_system_message_describes_every_operation(builder: CuratorPromptBuilder) -> None:
    system = builder.build_messages(material())[0][1]
    assert system == builder.build_messages(material([insight("x")]))[0][1]
    for shape in (Confirm, Rewrite, Merge, Add, Retire, Skip):
        for field in shape.model_fields:
            assert f'"{field}"' in system
        assert f'"op": "{shape.__name__.upper()}"' in system
    assert not re.search(r"\b[A-Z]-\d\d", system), "clause ids of the specification say nothing to a model"


def test_lessons_decide_the_language() -> None:
    auto = CuratorPromptBuilder("nowhere", "auto")
    assert build(material([insight("Check the refund policy first.")]), auto).endswith("Write in English.")
    assert build(material([insight("先に規則を確かめる。")]), auto).endswith("文章は日本語で書く。")


def test_a_template_gets_every_value(tmp_path: Path) -> None:  # C-46, C-47, C-49 to C-51
    builder = CuratorPromptBuilder(tmp_path, "en")
    template = "{insights}|{bullets}|{sections}|{{}}|{query}|{outcome}|{waiting}"
    (tmp_path / "d.txt").write_text(template, encoding="utf-8")
    data = material(
        [insight('{"a": 1} {bullets}'), insight("y")],
        [bullet("a", "one"), bullet("b", "two")],
        [SectionDefinition("s", "words")],
        query="why?",
    )
    expected = '{"a": 1} {bullets}\ny|[a] general\none\n\n[b] general\ntwo|- s: words|{}|why?|'
    outcome = "FAILURE, known from nothing: it is not known what it rests on"
    assert builder.build_own(data, "d") == f"{expected}{outcome}|(no lesson waits)"


def test_the_datasets_template_wins_then_the_default_then_the_built_in(tmp_path: Path) -> None:  # C-44, C-45
    builder = CuratorPromptBuilder(tmp_path)
    (tmp_path / "default.txt").write_text("default {insights}", encoding="utf-8")
    (tmp_path / "d.txt").write_text("本 {insights} {bullets} {sections} {{}}", encoding="utf-8")
    own = builder.build_own(material([insight("x")]), "d")
    assert own == "本 x (Bulletはありません) (セクション定義はありません) {}"
    assert builder.build_own(material([insight("x")]), "other") == "default x"
    assert BUILT_IN.build_own(material([insight("x")]), "d") is None


@pytest.mark.parametrize("broken", ["{oops}", "{", "}", "{0}", "{insights.x}", "{insights!r}"])
def test_a_broken_template_is_logged_and_the_next_one_used(  # C-48
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    (tmp_path / "d.txt").write_text(broken, encoding="utf-8")
    (tmp_path / "default.txt").write_text("fine {insights}", encoding="utf-8")
    assert CuratorPromptBuilder(tmp_path).build_own(material([insight("x")]), "d") == "fine x"
    assert "d.txt" in caplog.text


def test_a_template_is_never_looked_up_under_an_invalid_name(tmp_path: Path) -> None:  # C-82
    with pytest.raises(InvalidDatasetName):
        CuratorPromptBuilder(tmp_path).build_own(material(), "../d")


def test_bullets_that_are_not_shown_are_outlined() -> None:
    others = [bullet(f"b-{number:05d}", f"lesson {number} of\nmany {'words ' * 20}") for number in range(500)]
    others += [bullet("r-00001", "short {x}").replace_fields(section="rare")]
    prompt = build(material((), [bullet("a", "one")], (), others))
    assert "| one\n\n（502件のBulletのうち、関連する1件を上に示した。" in prompt
    general, rare = [line for line in prompt.splitlines() if line.startswith(("- general (500):", "- rare (1): ["))]
    assert general.startswith("- general (500): [b-00000] lesson 0 of many words")
    shown = general.count("[b-")
    assert general.endswith(f"… (+{500 - shown})")
    assert rare == "- rare (1): [r-00001] short {x}"
    assert "Above are the 1 of 502" in build(material((), [bullet("a", "one")], (), others), ENGLISH)


@given(st.lists(st.tuples(text, text), min_size=1, max_size=300))
def test_an_outline_is_bounded(bullets: list[tuple[str, str]]) -> None:
    text = build_outline([bullet("b", content).replace_fields(section=section) for section, content in bullets])
    assert len(text) <= OUTLINE_CHARS + 100 * OUTLINE_SECTIONS


def test_the_shipped_sections_are_loaded(tmp_path: Path) -> None:  # C-31
    names = [section.name for section in SectionLoader(SHIPPED_FILE).load("appworld")]
    assert "strategies_and_hard_rules" in names


def test_a_dataset_that_the_shipped_file_does_not_name_is_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:  # C-29
    caplog.set_level("INFO")
    monkeypatch.chdir(SHIPPED_FILE.parents[1])
    own = tmp_path / "sections.yaml"
    own.write_text("d: []\n", encoding="utf-8")
    for file in (SHIPPED_FILE, Path("config", SHIPPED_FILE.name), own):
        assert SectionLoader(file).load("other") == []
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO", "WARNING"]


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
def test_an_unreadable_sections_file_defines_no_sections(  # C-29
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
