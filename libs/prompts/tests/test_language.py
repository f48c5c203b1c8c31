"""The language of a text: the setting decides, else the script and the words of the request, else English."""

from __future__ import annotations

import pytest

from libs.prompts.language import Language, choose_language, detect_language


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "en"),
        ("Why is the sky blue?", "en"),
        ("空はなぜ青い？", "ja"),
        ("質問", "ja"),
        ("PythonのlistとTupleの違いは?", "ja"),
        ("Please translate the title 君の名は into English for me.", "en"),
        ("请帮我预订明天去上海的航班", "en"),
        ("Pourquoi le ciel est-il bleu ?", "en"),
    ],
)
def test_the_text_decides(text: str, expected: Language) -> None:
    assert (detect_language(text), choose_language("auto", text)) == (expected, expected)
    assert (choose_language("ja", text), choose_language("en", text)) == ("ja", "en")


def test_texts_count_together_and_of_a_long_one_the_beginning() -> None:
    assert detect_language("q", "それは42です。") == "ja"
    assert detect_language("それは青い。" + "x" * 10, "word " * 400 + "です。" * 9_000) == "en"
