"""Classifies normalized error messages by the few causes that need different advice."""

from __future__ import annotations

import re
from typing import Literal

Cause = Literal[
    "syntax", "denied", "network", "shape", "missing", "mismatch", "shortage", "state", "unsupported", "other"
]

_PATTERNS: tuple[tuple[Cause, str], ...] = (
    ("syntax", r"syntax ?error|indentation|parse error|unexpected (?:token|indent|eof)|unknown language|構文"),
    ("denied", r"permission|denied|forbidden|unauthori[sz]ed|api key|credential|\b40[13]\b|authentica|権限|認証"),
    (
        "network",
        r"time(?:d )?-?out|connection|resolve host|max retries|rate limit|too many requests|unreachable|"
        r"\b(?:429|50[0-4])\b|temporarily|タイムアウト|接続",
    ),
    (
        "shape",
        r"nonetype|typeerror|attributeerror|indexerror|out of (?:range|bounds)|not (?:iterable|subscriptable)|empty",
    ),
    (
        "missing",
        r"not found|no such|does(?: not|n't) exist|unknown|not defined|undefined|no module|keyerror|\b404\b|"
        r"could not find|cannot find|見つか|存在し",
    ),
    ("mismatch", r"add up|mismatch|(?:does|do) not match|expected|total|inconsistent|non-fast-forward|一致し"),
    ("shortage", r"not enough|insufficient|exceed|too (?:many|large|long|big)|quota|no space|不足|超え"),
    ("state", r"not available|unavailable|already|conflict|locked|busy|unique constraint|in use|\b409\b|利用でき|既に"),
    (
        "unsupported",
        r"cannot be|can't be|unsupported|not supported|not allowed|must be|must have|required|invalid|\b4[02]2\b|"
        r"必須|無効|使用でき",
    ),
)
_CAUSES = tuple((cause, re.compile(pattern, re.I)) for cause, pattern in _PATTERNS)


def classify_cause(kind: str) -> Cause:
    """Return the first cause whose pattern matches the normalized message `kind`, else `other`."""
    return next((cause for cause, pattern in _CAUSES if pattern.search(kind)), "other")
