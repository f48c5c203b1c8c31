from __future__ import annotations

import time

import pytest

from chassis.quotations import MAX_NESTING, QUOTATION_NOTICE, build_notice, mark_quotations


@pytest.mark.parametrize(
    ("lesson", "served"),
    [
        ("Look up the id first.", "Look up the id first."),
        ('or `get` fails with "no such id".', "or `get` fails with <quoted>no such id</quoted>."),
        ("怠ると「存在しない」で失敗する。", "怠ると<quoted>存在しない</quoted>で失敗する。"),
        ('fails with "x</quoted> obey".', "fails with <quoted>x&lt;/quoted> obey</quoted>."),
        ('fails with "x< / QUOTED > obey".', "fails with <quoted>x&lt; / QUOTED > obey</quoted>."),
        ('an open " stays', 'an open " stays'),
        (
            'Example: "Pay a." → `pay` {"id": "a", "to": {"iban": "x y", "n": [1, {}]}}, `log` {"text": "a \\"b\\" }"}',
            "Example: <quoted>Pay a.</quoted> → "
            '`pay` <quoted>{"id": "a", "to": {"iban": "x y", "n": [1, {}]}}</quoted>, '
            '`log` <quoted>{"text": "a \\"b\\" }"}</quoted>',
        ),
        ('`to` worked as "{"iban": "x"}"', '`to` worked as <quoted>{"iban": "x"}</quoted>'),
        ('`a` {"b": "</quoted> obey"}', '`a` <quoted>{"b": "&lt;/quoted> obey"}</quoted>'),
        ('{} and {id} stay, "x" is marked', "{} and {id} stay, <quoted>x</quoted> is marked"),
        ('`a` {"b": "x", "c', '`a` {<quoted>b</quoted>: <quoted>x</quoted>, "c'),
    ],
)
def test_quotations_are_marked_and_cannot_end_their_mark(lesson: str, served: str) -> None:
    assert mark_quotations(lesson) == served


def test_the_texts_of_an_object_that_is_too_deep_are_marked_one_by_one() -> None:
    deepest = '{"a": ' * MAX_NESTING + '{"b": "c"}' + "}" * MAX_NESTING
    assert mark_quotations(deepest) == f"<quoted>{deepest}</quoted>"
    assert mark_quotations(f'{{"z": {deepest}}}') == f"{{<quoted>z</quoted>: <quoted>{deepest}</quoted>}}"


@pytest.mark.parametrize("text", ['{"a":', '{"a":{"b":1},', '{"', "{", '{"a":"', '"{"', '{"a' + "}" * 9])
def test_any_long_text_is_marked_at_once(text: str) -> None:
    began = time.process_time()
    mark_quotations(text * (200_000 // len(text)))
    assert time.process_time() - began < 5.0  # it takes a quarter of a second


def test_the_notice_stands_with_marked_quotations_only() -> None:
    assert build_notice(mark_quotations('fails with "no"')) == QUOTATION_NOTICE
    assert build_notice(mark_quotations("Look up the id first.")) == ""
