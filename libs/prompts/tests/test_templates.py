from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import InvalidArgument
from libs.prompts.templates import MAX_TEMPLATE_BYTES, PromptTemplates, TemplateError, fill


def test_each_placeholder_is_replaced_by_its_value() -> None:
    assert fill("{a}-{b}-{a}", {"a": "1", "b": "2", "unused": "3"}) == "1-2-1"  # G-06


def test_doubled_braces_stand_for_braces() -> None:
    assert fill('{{"deltas": [{x}]}}', {"x": "1"}) == '{"deltas": [1]}'  # C-46
    assert fill("{{{x}}}", {"x": "1"}) == "{1}"
    assert fill("{{x}}", {"x": "1"}) == "{x}"


@given(st.text(alphabet="{}ax \\"), st.text())
def test_values_are_never_scanned(first: str, second: str) -> None:
    assert fill("<{a}|{b}>", {"a": first, "b": second}) == f"<{first}|{second}>"  # C-47, G-06, G-67


@given(st.text())
def test_a_text_with_its_braces_doubled_fills_to_itself(text: str) -> None:
    assert fill(text.replace("{", "{{").replace("}", "}}"), {}) == text  # C-46


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{oops}", "placeholder {oops} has no value; known placeholders: {x}"),
        ("a { b", "stray '{' at character 2"),
        ("a } b", "stray '}' at character 2"),
        ("{x.__class__}", "stray '{'"),
        ("{x[0]}", "stray '{'"),
        ("{x!r}", "stray '{'"),
        ("{x:>10}", "stray '{'"),
        ("{0}", "stray '{'"),
        ("{}", "stray '{'"),
    ],
)
def test_a_broken_template_is_an_error_with_its_cause(template: str, complaint: str) -> None:
    with pytest.raises(TemplateError) as caught:  # C-48, G-06
        fill(template, {"x": "1"})
    assert complaint in str(caught.value)


def templates_in(folder: Path, **files: str) -> PromptTemplates:
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return PromptTemplates(folder, "built-in {x}")


def test_the_datasets_template_comes_first_then_default_then_the_built_in_one(tmp_path: Path) -> None:
    templates = templates_in(tmp_path, alpha="日本語 {x}", default="default {x}")  # C-45
    assert templates.fill_first(["alpha", "default"], {"x": "1"}) == "日本語 1"
    assert templates.fill_first(["beta", "default"], {"x": "1"}) == "default 1"
    assert templates.fill_first(["beta"], {"x": "1"}) == "built-in 1"
    assert PromptTemplates(tmp_path / "missing", "built-in {x}").fill_first(["alpha"], {"x": "1"}) == "built-in 1"
    assert PromptTemplates(None, "built-in {x}").fill_first(["alpha"], {"x": "1"}) == "built-in 1"


def test_a_broken_template_is_logged_and_the_next_one_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    templates = templates_in(tmp_path, alpha='{"stray": 1}', default="{oops}")  # C-48
    with caplog.at_level(logging.WARNING):
        assert templates.fill_first(["alpha", "default"], {"x": "1"}) == "built-in 1"
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "broken" in caplog.messages[0]
    assert "alpha.txt" in caplog.messages[0]
    assert "broken" in caplog.messages[1]
    assert "default.txt" in caplog.messages[1]


@pytest.mark.parametrize("content", [b"\xff\xfe {x}", b" " * (MAX_TEMPLATE_BYTES + 1)])
def test_an_unreadable_template_is_logged_and_the_next_one_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / "alpha.txt").write_bytes(content)  # C-45: files are UTF-8
    assert PromptTemplates(tmp_path, "built-in {x}").fill_first(["alpha"], {"x": "1"}) == "built-in 1"
    assert "cannot be read" in caplog.text
    assert "alpha.txt" in caplog.text


def test_a_directory_in_place_of_a_template_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "alpha.txt").mkdir()
    assert PromptTemplates(tmp_path, "built-in {x}").fill_first(["alpha"], {"x": "1"}) == "built-in 1"


@pytest.mark.parametrize("name", ["../secret", "a b", "", "a\n", "日本", "/etc/passwd"])
def test_no_path_is_built_from_a_name_that_is_not_a_dataset(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:  # C-13, C-82
        PromptTemplates(tmp_path / "prompts", "built-in").fill_first([name], {})
    assert str(caught.value) == f"Invalid dataset name: '{name}'"
    (violation,) = caught.value.violations
    assert violation.description == "dataset must be 1 to 128 of the characters A-Z, a-z, 0-9, _ and -"


def test_a_broken_built_in_template_is_an_error() -> None:
    with pytest.raises(TemplateError, match="built-in template: placeholder"):
        PromptTemplates(None, "{x}").fill_first(["default"], {})
