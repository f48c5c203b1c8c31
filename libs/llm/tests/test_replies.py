from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from libs.llm.errors import ReplyNotStructured
from libs.llm.replies import MAX_REPLY_CHARS, extract_json_object, read_text

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=8,
)
json_objects = st.dictionaries(texts, json_values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('```json\n{"a":1}\n```', {"a": 1}),
        ('text {"a":1} more', {"a": 1}),
        ('{"a":"{"}', {"a": "{"}),
        ('{"a": 1}', {"a": 1}),
        (' \n{"a": 1}\n', {"a": 1}),
        ('```{"a":1}```', {"a": 1}),
        ('Here:\n```\n{"a":1}\n```\nand {more}', {"a": 1}),
        ('```json\n{"a":"```sh\\nls\\n```"}\n```', {"a": "```sh\nls\n```"}),
        ('```json\n{"a":1}\n```\n```json\n{"a":2}\n```', {"a": 1}),
        ('```json\n{"a":1}', {"a": 1}),
        ('{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
        ('{"a":"\\ud800"}', {"a": "\ufffd"}),
        ('{"a":"\\uDE00\\ud83d x \\\\ud800"}', {"a": "\ufffd\ufffd x \\ud800"}),
        (r'{"a\u0000": ["b\u0000c"]}', {"a\ufffd": ["b\ufffdc"]}),
        (r'{"a": "\\u0000 \\\u0000"}', {"a": "\\u0000 \\\ufffd"}),
    ],
)
def test_the_object_is_found(text: str, expected: dict[str, Any]) -> None:
    assert extract_json_object(text) == expected  # G-11


@pytest.mark.parametrize(
    "text",
    ["no json", "{", "[1]", "", "}{", '{"a":NaN}', '{"a":Infinity}', "null", "```json\n[1]\n```"],
)
def test_anything_else_is_a_parse_error(text: str) -> None:
    with pytest.raises(ReplyNotStructured):  # G-11
        extract_json_object(text)


def test_depth_and_size_cannot_break_the_parser() -> None:
    with pytest.raises(ReplyNotStructured, match="no JSON object"):
        extract_json_object('{"a":' * 100_000)
    with pytest.raises(ReplyNotStructured, match="more than 4000000"):
        extract_json_object(" " * (MAX_REPLY_CHARS + 1))


@given(json_objects)
def test_any_object_in_a_fence_or_prose_is_found(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert extract_json_object(text) == value  # G-11
    assert extract_json_object(f"```json\n{text}\n```") == value
    assert extract_json_object(f"The answer: {text} That is all.") == value


@given(st.text(alphabet='{}[]`"a1:, \n\\'))
def test_arbitrary_text_gives_an_object_or_a_parse_error(text: str) -> None:
    with suppress(ReplyNotStructured):
        assert isinstance(extract_json_object(text), dict)


def test_text_parts_are_joined_without_separator() -> None:
    parts: list[str | dict[Any, Any]] = [
        "a",
        {"type": "text", "text": "b"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"text": "c"},
    ]
    assert read_text(AIMessage(content=parts)) == "abc"  # G-07
    assert read_text(AIMessage(content="plain")) == "plain"
    assert read_text(AIMessage(content=[])) == ""
    assert read_text(AIMessage(content=[{"type": "text", "text": 7}])) == ""


def test_text_can_always_be_encoded() -> None:
    assert read_text(AIMessage(content="a\ud800b\0 日本 😀")) == "a\ufffdb\ufffd 日本 😀"
