"""Japanese text for the linguistic wording rules: normalised, and split into morphemes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Morpheme:
    """One word of a text.

    `normal` is its normalised form (下さい and ください are both 下さる), `word_class` its part of speech, `form` the
    inflected form it stands in.
    """

    surface: str
    normal: str
    word_class: str
    form: str = "*"


Tokenize = Callable[[str], Iterable[Morpheme]]
"""Splits normalised text into morphemes, a part of a long text at a time."""

_JAPANESE = r"[\u3040-\u30ff\u3400-\u9fff\u3005]"
_SPACE_INSIDE = re.compile(rf"(?<={_JAPANESE})[ \t\u3000]+(?={_JAPANESE})")
_KATAKANA_RUN = re.compile(r"[\u30a1-\u30f6\u30fc]+")

# Grammar is written in hiragana; a run of katakana that is a piece of one of these is a disguise of it.
_GRAMMAR = ("スルベキ", "スベキ", "ベシ", "シテクダサイ", "シテクタ゛サイ", "ガヒツヨウデス", "ナサイ", "オネガイ")


def normalise(text: str) -> str:
    """Return the text in NFKC, without invisible characters and spaces inside Japanese, with grammar in hiragana."""
    text = unicodedata.normalize("NFKC", text)
    text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    text = _SPACE_INSIDE.sub("", text)
    return _KATAKANA_RUN.sub(_write_grammar_in_hiragana, text)


def _write_grammar_in_hiragana(run: re.Match[str]) -> str:
    katakana = run.group()
    if not any(katakana in word for word in _GRAMMAR):
        return katakana
    return "".join(chr(ord(char) - 0x60) if "ァ" <= char <= "ヶ" else char for char in katakana)
