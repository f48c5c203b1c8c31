from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.llm.json_completion import MAX_CUTS, complete_json

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


def test_a_reply_that_nests_without_end_takes_little_memory() -> None:
    text = '{"items": ' + "[" * 20_000 + "[]," * 5_000
    tracemalloc.start()
    try:
        assert len(list(complete_json(text))) == MAX_CUTS
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000
