from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.reflector.domain.reduction import Transcript
from services.reflector.domain.reflection import Insight, UsedBullet
from services.reflector.domain.reflection_request import ReflectionRequest
from services.reflector.prompts.builder import ReflectorPrompts
from services.reflector.tests.runs import run, says

A = UsedBullet(id="er-00001", section="git", content="Set {user.name} first.")
B = UsedBullet(id="er-00002", section="sqlite", content='Use {"timeout": 5}.')
BUILT_IN = ReflectorPrompts(None, "ja", 60_000)


def insight(key: str) -> Insight:
    return Insight(
        reasoning="r", error_identification="e", root_cause_analysis="c", correct_approach="a", key_insight=key
    )


def request(dataset: str = "appworld", **fields: Any) -> ReflectionRequest:
    trajectory = run(query="Why?", generated_answer="Because {x}.", reasoning_steps=("look", "decide"))
    return ReflectionRequest(trajectory, dataset, **{"ground_truth": "G", "test_report": "T", **fields})


def fill_template(template: str, folder: Path, *, dataset: str = "appworld", **values: Any) -> str:
    """Return the prompt from a dataset's own template."""
    (folder / f"{dataset}.txt").write_text(template, encoding="utf-8")
    prompts = ReflectorPrompts(folder, "ja", 60_000)
    transcript = values.get("transcript", Transcript("1. look\n2. decide"))
    return prompts.build_insights_prompt(
        request(dataset), transcript, values.get("used", ()), values.get("previous", ())
    )


def test_the_datasets_template_comes_before_the_default_and_that_before_the_built_in_text(tmp_path: Path) -> None:
    prompts = ReflectorPrompts(tmp_path, "ja", 60_000)
    arguments: Any = (Transcript(""), (), ())
    assert prompts.build_insights_prompt(request(), *arguments).startswith(
        "あなたはエージェントの実行を振り返る"
    )
    (tmp_path / "default.txt").write_text("既定 {ground_truth}", encoding="utf-8")
    assert prompts.build_insights_prompt(request(), *arguments) == "既定 G"
    (tmp_path / "appworld.txt").write_text("own {test_report}", encoding="utf-8")
    assert prompts.build_insights_prompt(request(), *arguments) == "own T"
    assert prompts.build_insights_prompt(request("other"), *arguments) == "既定 G"


@pytest.mark.parametrize("broken", ["{oops}", "{", "x } y", "{0}", "{ground_truth.x}"])
def test_a_broken_template_gives_way_to_the_next(tmp_path: Path, broken: str) -> None:
    assert fill_template(broken, tmp_path).startswith("あなたはエージェントの実行を振り返る")


def test_every_variable_is_filled(tmp_path: Path) -> None:
    names = ("generated_answer", "ground_truth", "test_report", "reasoning_steps", "used_bullets", "previous_insights")
    template = "|".join(f"{{{name}}}" for name in (*names, "previous_insights_section"))
    text = fill_template(template, tmp_path, used=[A, B], previous=[insight("one"), insight("two")])
    assert text.split("|") == [
        "Because {x}.",
        "G",
        "T",
        "1. look\n2. decide",
        '[er-00001] git\nSet {user.name} first.\n\n[er-00002] sqlite\nUse {"timeout": 5}.',
        "- one\n- two",
        "- one\n- two",
    ]


def test_what_is_empty_has_its_placeholder(tmp_path: Path) -> None:
    text = fill_template("{used_bullets}|{previous_insights}|{reasoning_steps}", tmp_path, transcript=Transcript(""))
    assert text == "(Bulletはありません)||"


@pytest.mark.parametrize("language", ["ja", "en"])
def test_the_built_in_templates_ask_for_what_r_28_says(language: Any) -> None:
    prompts = ReflectorPrompts(None, language, 60_000)
    prompt = prompts.build_insights_prompt(request(), Transcript("1. look"), [A], [insight("one")])
    for field in Insight.model_fields.keys() - {"section"}:
        assert f'"{field}"' in prompt
    assert '"insights": [' in prompt
    judged = prompts.build_bullet_prompt(request(), A)
    for part in ("er-00001", A.content, "Because {x}.", "\nG\n", "\nT\n", '"tag"', '"reason"'):
        assert part in judged


def test_a_bullets_template_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "bullet_evaluation.txt").write_text("{bullet_id}: {bullet_content}", encoding="utf-8")
    prompts = ReflectorPrompts(tmp_path, "ja", 60_000)
    assert prompts.build_bullet_prompt(request(), A) == "er-00001: Set {user.name} first."


texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("{}\"'\\%"), max_size=60)


@given(texts, texts, texts, texts)
def test_braces_code_and_json_never_break_a_prompt(answer: str, report: str, content: str, step: str) -> None:
    trajectory = run(says(step), query="q", generated_answer=answer)
    reflection_request = ReflectionRequest(trajectory, "test", ground_truth="G", test_report=report)
    bullet = UsedBullet(id="a", section="s", content=content)
    prompt = BUILT_IN.build_insights_prompt(reflection_request, Transcript(step), [bullet], [insight(content)])
    for part in (answer, report, content, step):
        assert part in prompt
    assert content in BUILT_IN.build_bullet_prompt(reflection_request, bullet)


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    text = fill_template(
        "{reasoning_steps}", tmp_path, transcript=Transcript("[0] x", shortened=(3,), omitted=(1, 2, 5))
    )
    assert "ステップ3は先頭と末尾のみ" in text
    assert "ステップ1-2, 5の3件を省略した" in text


def test_the_middle_of_a_huge_answer_is_marked_as_omitted() -> None:
    prompts = ReflectorPrompts(None, "en", 1_000)
    reflection_request = ReflectionRequest(run(generated_answer="a" * 500 + "b" * 9_000 + "c" * 500), "test")
    prompt = prompts.build_insights_prompt(reflection_request, Transcript(""), (), ())
    assert "a" * 500 + "\n(For length, 9000 characters are left out here.)\n" + "c" * 500 in prompt
    assert len(prompt) < 5_000


def test_a_log_is_read_beside_the_reasoning_steps(tmp_path: Path) -> None:
    (tmp_path / "appworld.txt").write_text("{reasoning_steps}", encoding="utf-8")
    trajectory = run(says("hello"), reasoning_steps=("look",))
    prompts = ReflectorPrompts(tmp_path, "ja", 60_000)
    reflection_request = ReflectionRequest(trajectory, "appworld")
    text = prompts.build_insights_prompt(reflection_request, Transcript("[0] assistant: hello"), (), ())
    assert text == "1. look\n実行ログ:\n[0] assistant: hello"
