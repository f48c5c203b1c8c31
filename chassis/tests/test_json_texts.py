"""Texts of JSON values."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from chassis.json_texts import format_as_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is: {", "as it is: {"),
        ("", ""),
        ({"b": [1, None], "a": "表"}, '{"b": [1, null], "a": "表"}'),
        (None, "null"),
        ([PurePosixPath("a/b")], '["a/b"]'),
    ],
)
def test_a_text_is_unchanged_and_other_values_are_json(value: object, text: str) -> None:
    assert format_as_text(value) == text
