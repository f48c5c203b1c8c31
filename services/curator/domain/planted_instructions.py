"""Find instructions to the reading model in a text, however their letters are disguised.

A match only sends a text to review: a false alarm costs a look of a person. Wordings that no pattern knows pass, so
quotations of tools wait for a second source as well (`usecases/corroboration.py`).
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import lru_cache
from pathlib import Path

_WORDS_OF_LETTERS = re.compile(r"(?<!\w)\w(?:[ .\-_*]\w){3,}(?!\w)")
_SEPARATORS = re.compile(r"[ .\-_*]")
# Soft hyphens, zero-width characters, marks of direction, variation selectors, tags, and private or lone code points.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_ACCENTS = re.compile("[\u0300-\u036f]")
_BETWEEN_CJK = re.compile(r"(?<=[\u3040-\u30ff\u3400-\u9fff]) (?=[\u3040-\u30ff\u3400-\u9fff])")
_CJK_LETTER = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_ANY_SENTENCE = r"(?:[^.!?。]|[.!?](?=\S)){0,50}?"
_WIDE_SPACES = re.compile(r"[^\S\n]{2,}")

# Letters of other alphabets that look like Latin ones, after lower-casing.
_LOOK_ALIKES = str.maketrans(
    "авеёкмнорстухіїјѕԁԛԝһӏαβεηικνορτυχω\u0261\u0131\u026a\u1d0f\u1d1c\u1d04\u0578\u057d",
    "abeekmhopctyxiijsdqwhlabenikvoptuxwgiioucnu",
)


@lru_cache(maxsize=4_096)
def find_instruction(text: str) -> str:
    """Return the first phrase of `text` that instructs the reading model, or "". The time is linear in the text."""
    normal = normalize(text)
    has_cjk = _CJK_LETTER.search(normal)
    found = _MARKUP.search(normal) or _LATIN.search(normal) or (_CJK.search(normal) if has_cjk else None)
    return " ".join(found[0].split()) if found else ""


def normalize(text: str) -> str:
    """Return a text in lower case without accents, look-alike letters, invisible characters and spaced letters."""
    text = text.casefold()
    if not text.isascii():
        text = _ACCENTS.sub("", _INVISIBLE.sub("", unicodedata.normalize("NFKD", text).casefold()))
        text = unicodedata.normalize("NFC", text).translate(_LOOK_ALIKES).replace("\u2019", "'")
    text = _WORDS_OF_LETTERS.sub(lambda found: _SEPARATORS.sub("", found[0]), _WIDE_SPACES.sub("  ", text))
    return _BETWEEN_CJK.sub("", re.sub(r"\s+", " ", text))


def _compile_patterns(*languages: str, gate: str = "") -> re.Pattern[str]:
    """Return one pattern for the languages; it is tried only where `gate` matches, which saves most of the time."""
    patterns = [pattern.replace("~", _ANY_SENTENCE) for language in languages for pattern in _PATTERNS[language]]
    return re.compile(gate + "(?:" + "|".join(f"(?:{pattern})" for pattern in patterns) + ")")


_PATTERNS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_MARKUP = _compile_patterns("any")
_LATIN = _compile_patterns("en", "de", "fr", "es", gate=r"(?<!\w)(?=\w)")
_CJK = _compile_patterns("ja", "zh")
