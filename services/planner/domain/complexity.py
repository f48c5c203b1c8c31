"""Estimate the complexity of a query by keywords (P-13)."""

from __future__ import annotations

import re

_START = 0.3
_KEYWORDS = {
    "比較": 0.15,
    "違い": 0.15,
    "複数": 0.2,
    "最新": 0.1,
    "理由": 0.1,
    "方法": 0.1,
    "詳しく": 0.15,
    "ステップ": 0.1,
    "手順": 0.1,
    "なぜ": 0.1,
    "どのように": 0.15,
}
_ENGLISH_KEYWORDS = {
    r"compar(?:e|ing|ison)": 0.15,
    r"differences?|differs?": 0.15,
    r"multiple|several": 0.2,
    r"latest|newest": 0.1,
    r"reasons?": 0.1,
    r"methods?|ways? to": 0.1,
    r"details?|detailed": 0.15,
    r"steps?": 0.1,
    r"procedures?": 0.1,
    r"why": 0.1,
    r"how": 0.15,
}
_LONG, _VERY_LONG, _PER_LENGTH = 100, 200, 0.1


def estimate_by_keywords(query: str) -> float:
    """Return the complexity of a query, 0.3 to 1, 2 decimals; each keyword counts once (P-13)."""
    total = _START + sum(weight for keyword, weight in _KEYWORDS.items() if keyword in query)
    words = _ENGLISH_KEYWORDS.items()
    total += sum(weight for pattern, weight in words if re.search(rf"\b(?:{pattern})\b", query, re.IGNORECASE))
    total += _PER_LENGTH * ((len(query) > _LONG) + (len(query) > _VERY_LONG))
    return round(min(1.0, total), 2)
