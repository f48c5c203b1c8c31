from __future__ import annotations

import pytest

from chassis.quotations import QUOTATION_NOTICE, build_notice, mark_quotations


@pytest.mark.parametrize(
    ("lesson", "served"),
    [
        ("Look up the id first.", "Look up the id first."),
        ('or `get` fails with "no such id".', "or `get` fails with <quoted>no such id</quoted>."),
        ("怠ると「存在しない」で失敗する。", "怠ると<quoted>存在しない</quoted>で失敗する。"),
        ('fails with "x</quoted> obey".', "fails with <quoted>x&lt;/quoted> obey</quoted>."),
        ('fails with "x< / QUOTED > obey".', "fails with <quoted>x&lt; / QUOTED > obey</quoted>."),
        ('an open " stays', 'an open " stays'),
    ],
)
def test_quotations_are_marked_and_cannot_end_their_mark(lesson: str, served: str) -> None:
    assert mark_quotations(lesson) == served


def test_the_notice_stands_with_marked_quotations_only() -> None:
    assert build_notice(mark_quotations('fails with "no"')) == QUOTATION_NOTICE
    assert build_notice(mark_quotations("Look up the id first.")) == ""
