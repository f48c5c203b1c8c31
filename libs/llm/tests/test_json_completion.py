from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.llm.json_completion import complete_json

WHOLE = '{"a": "x, y", "list": [{"b": [1, 2], "c": "}"}, {"b": [3], "c": "z"}], "end": "last"}'


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (20, None),
        (40, None),
        (46, {"a": "x, y", "list": [{"b": [1, 2], "c": "}"}]}),
        (60, {"a": "x, y", "list": [{"b": [1, 2], "c": "}"}]}),
        (len(WHOLE) - 4, {"a": "x, y", "list": [{"b": [1, 2], "c": "}"}, {"b": [3], "c": "z"}]}),
    ],
)
def test_complete_elements_are_kept(length: int, expected: object) -> None:
    candidates = [json.loads(candidate) for candidate in complete_json(WHOLE[:length])]
    elements = [candidate for candidate in candidates if all("c" in item for item in candidate.get("list", []))]
    assert (elements[0] if elements else None) == expected


@given(st.integers(0, len(WHOLE)))
def test_every_candidate_is_an_object(length: int) -> None:
    for candidate in complete_json(WHOLE[:length]):
        assert isinstance(json.loads(candidate), dict)


@given(st.text(alphabet='{}[]",:\\ a1'))
def test_any_text_is_read(text: str) -> None:
    list(complete_json(text))
