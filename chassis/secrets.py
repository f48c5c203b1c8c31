"""Secrets in texts and documents, found by their name or form, so that logs and transcripts hold none.

This module imports nothing but the standard library: a hook of an agent starts with each prompt.
"""

from __future__ import annotations

import re
from functools import cache

TYPE_CHECKING = False  # As in typing, whose import takes longer than a hook of an agent may take.
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

REDACTED = "[redacted]"
_SECRET_KEY = re.compile(
    r"(^|[_-])(api[_-]?key|authorization|token|password|passphrase|secret|cookie|credentials?|(private|access)[_-]?key)$",
    re.IGNORECASE,
)
# The named group of each alternative is not redacted. Repetitions are bounded where matching could be quadratic.
_REDACTED_FORMS = (
    r"(?P<scheme>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?P<key>\bsk-)[A-Za-z0-9_-]{8,}"
    r"|(?P<vendor>\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|npm_|pypi-|hf_))[A-Za-z0-9_-]{16,}"
    r"|(?P<google>\bAIza)[A-Za-z0-9_-]{20,}"
    r"|(?P<own>\bhansei_)[0-9a-f]{16}_[A-Za-z0-9_-]{16,}"
    r"|(?P<jwt>(?<![A-Za-z0-9_-])ey)J[A-Za-z0-9_-]{5,4000}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"
    r"|(?P<pem>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?s:.*?)(?:(?=-----END)|\Z)"
    # A password may hold `/` and `@`; the text after a port is no password.
    r"|(?P<url>\b[a-z][a-z0-9+.-]{0,30}://[^\s:/@]*:)(?!\d+(?:[/?#]|$))[^\s\"'<>]{1,500}(?=@)"
    # A member of a JSON object in a text, also where the JSON is itself a member of another one.
    r"|(?P<member>(?:api[_-]?key|authorization|token|password|passphrase|secret|cookie|credentials?|(?:private|access)"
    r"[_-]?key)(?P<quote>\\*\")\s{0,9}:\s{0,9}(?P=quote))(?:(?!(?P=quote)).)+"
    # An option of a command line, in a text or as JSON: `--api-token abc`, `"--api-token", "abc"`.
    r"|(?P<option>--(?:[a-z]{1,20}-){0,3}(?:(?:api|access)[_-]?key|token|password|passphrase|secret)"
    r"(?:\s{1,9}|\\*\"\s{0,9},\s{0,9}\\*\"))[^\s\"'\\-][^\s\"'\\]*"
    r"|(?P<assignment>(?:(?:api|access)[_-]?key|token|password|passphrase|secret|[?&](?:key|sig|signature))=)[^\s&;,\"']+"
)
_URL_ANCHOR = "://"
_ANCHORS = (
    *(
        "bearer",
        "basic",
        "sk-",
        "aiza",
        "hansei_",
        "eyj",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "xox",
        "akia",
        "npm_",
        "pypi-",
        "hf_",
        "-----begin",
        "api",
        "authorization",
        "token",
        "pass",
        "secret",
    ),
    *("cookie", "credential", "private", "access", "?key", "&key", "?sig", "&sig", "--", _URL_ANCHOR),
)
"""The beginning of each match of `_REDACTED_FORMS` in lower case, and the `://` of a URL."""
_SCHEME_CHARS = "abcdefghijklmnopqrstuvwxyz0123456789+.-"
_MAX_SCHEME_CHARS = 31
_MAX_DEPTH = 6


def is_secret(key: str) -> bool:
    """Return whether values of this name (``OPENAI_API_KEY``, ``authorization``) are secret."""
    return bool(_SECRET_KEY.search(key))


def remove_secrets(value: Any, key: object = None, depth: int = 0) -> Any:
    """Return a value without its secrets, which are found by their key or form.

    The forms are usual API keys and tokens, passwords in URLs, private keys, and ``password=…``.
    """
    if isinstance(key, str) and value and is_secret(key):
        return REDACTED
    if isinstance(value, str):
        return _redact_text(value)
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {k: remove_secrets(v, k, depth + 1) for k, v in value.items()}
    if depth < _MAX_DEPTH and isinstance(value, list | tuple):
        return [
            REDACTED if hides else remove_secrets(item, None, depth + 1) for item, hides in mark_option_values(value)
        ]
    return value


def mark_option_values(items: list[Any] | tuple[Any, ...]) -> Iterator[tuple[Any, bool]]:
    """Yield each item of a command line, and whether it is the value of a secret option, such as `--github-token`."""
    before: Any = None
    for item in items:
        is_named = isinstance(before, str) and before.startswith("-") and is_secret(before)
        yield item, is_named and isinstance(item, str) and bool(item) and not item.startswith("-")
        before = item


@cache
def _compile_redacted_forms() -> re.Pattern[str]:
    """Return the compiled `_REDACTED_FORMS`. It is compiled when a text needs it: a hook starts often."""
    return re.compile(_REDACTED_FORMS, re.IGNORECASE)


def _redact_text(text: str) -> str:
    """Return a text without its secrets: as by the method `sub` of the pattern, which takes twenty times as long."""
    folded = text.casefold()
    if len(folded) != len(text):  # places in one are not places in the other
        return _compile_redacted_forms().sub(_redact_match, text)
    anchors = [anchor for anchor in _ANCHORS if anchor in folded]
    if not anchors:
        return text
    parts: list[str] = []
    end = 0
    for start in sorted(start for anchor in anchors for start in _list_starts(folded, anchor)):
        match = _compile_redacted_forms().match(text, start) if start >= end else None
        if match is not None:
            parts += (text[end:start], _redact_match(match))
            end = match.end()
    return "".join([*parts, text[end:]]) if parts else text


def _list_starts(folded: str, anchor: str) -> Iterator[int]:
    """Yield where a match that has an anchor may begin: at the anchor, or anywhere in the scheme of a URL."""
    position = folded.find(anchor)
    while position >= 0:
        if anchor == _URL_ANCHOR:
            before = folded[max(0, position - _MAX_SCHEME_CHARS) : position]
            yield from range(position - len(before) + len(before.rstrip(_SCHEME_CHARS)), position)
        else:
            yield position
        position = folded.find(anchor, position + 1)


def _redact_match(match: re.Match[str]) -> str:
    return f"{match[match.lastgroup or 0]}{REDACTED}"
