"""Texts of JSON values, and the values of JSON texts."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from chassis.json_texts import (
    MAX_INTEGER_DIGITS,
    MAX_NESTING,
    NestedTooDeeply,
    format_as_text,
    has_surrogates,
    parse_shallow_json,
    parse_strict_json,
    repair_surrogates,
    replace_nul,
)


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


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_json_has_not_are_refused(constant: str) -> None:
    with pytest.raises(ValueError, match=f"^{constant} is not JSON$"):
        parse_strict_json(f'{{"a": [{constant}]}}'.encode())


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_integer_with_too_many_digits_is_refused_with_the_limit(sign: str) -> None:
    most = sign + "9" * MAX_INTEGER_DIGITS
    assert parse_strict_json(f'{{"a": [{most}, 7]}}') == {"a": [int(most), 7]}
    rule = "^an integer has 4,301 digits, of which at most 4,300 are allowed$"
    with pytest.raises(ValueError, match=rule):
        parse_strict_json(f'{{"a": [{most}9]}}')


@pytest.mark.parametrize("begin", ["[", '{"a": '])
def test_nesting_is_allowed_up_to_a_limit_that_does_not_depend_on_the_stack(begin: str) -> None:
    end = "]" if begin == "[" else "}"
    levels = MAX_NESTING - 2
    assert parse_shallow_json(begin * levels + "[[], [], {}]" + end * levels)
    assert parse_shallow_json("[" + "[], " * MAX_NESTING + "[]]")
    for too_many in (MAX_NESTING, 980, 100_000):
        with pytest.raises(NestedTooDeeply, match="is nested deeper than 200 levels"):
            parse_shallow_json(begin * too_many + "[]" + end * too_many)
    with pytest.raises(ValueError, match="Expecting"):
        parse_shallow_json(begin)


def test_line_breaks_in_strings_are_allowed_on_request() -> None:
    with pytest.raises(ValueError, match="control character"):
        parse_strict_json('"a\nb"')
    assert parse_strict_json('"a\nb"', allow_control_characters=True) == "a\nb"


@pytest.mark.parametrize(
    ("text", "has_half", "repaired"),
    [
        ("plain", False, "plain"),
        ("表 😀", False, "表 😀"),
        ("cut \ud83d", True, "cut \ufffd"),
        ("\ude00 alone", True, "\ufffd alone"),
        ("\ud83d\ude00", True, "😀"),
    ],
)
def test_halves_of_surrogate_pairs_are_found_and_repaired(text: str, has_half: bool, repaired: str) -> None:
    assert has_surrogates(text) is has_half
    assert repair_surrogates(text) == repaired


def test_u0000_is_replaced() -> None:
    assert replace_nul("a\0\0b") == "a\ufffd\ufffdb"
