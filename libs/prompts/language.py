"""The language of texts for models and people: that of the setting, else that of the request, else English."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

Language = Literal["ja", "en"]
LanguageSetting = Literal["auto", "ja", "en"]
"""The values of `HANSEI_LANGUAGE`; `auto` is the language of the request."""

T = TypeVar("T")

_KANA = re.compile(r"[\u3041-\u30ff]")
_JAPANESE = re.compile(r"[\u3041-\u30ff\u3400-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-z]+")
_READ_CHARS = 2_000
_SHORT_CHARS = 10
_JAPANESE_SHARE = 0.4
"""Share of Japanese characters among Japanese characters and Latin words; a word carries as much as two characters."""


def detect_language(*texts: str) -> Language:
    """Return Japanese if the texts are written in it, else English.

    Japanese has kana. A short text of Chinese characters alone counts as Japanese; a long one is Chinese.
    """
    sample = "\n".join(text[:_READ_CHARS] for text in texts)
    japanese = len(_JAPANESE.findall(sample))
    words = len(_LATIN_WORD.findall(sample))
    if not _KANA.search(sample):
        return "ja" if 0 < japanese <= _SHORT_CHARS and not words else "en"
    return "ja" if japanese >= _JAPANESE_SHARE * (japanese + words) else "en"


def choose_language(setting: LanguageSetting, *texts: str) -> Language:
    """Return the language of the setting; with `auto` that of the texts of the request."""
    return detect_language(*texts) if setting == "auto" else setting


def load_texts(file: Path, shape: type[T], table: str = "") -> Mapping[Language, T]:
    """Return the texts of a TOML file with the tables `ja` and `en`, as values of `shape`. `table` contains them."""
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    by_language: Any = Mapping  # a type that depends on `shape`, which mypy cannot follow
    texts: Mapping[Language, T] = TypeAdapter(by_language[Language, shape]).validate_python(
        tables[table] if table else tables
    )
    return texts
