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
# `_redact_text` finds the end of a private key and of a member: it may be far, and no other thread runs during a match.
_REDACTED_FORMS = (
    r"(?P<scheme>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?P<key>\bsk-)[A-Za-z0-9_-]{8,}"
    r"|(?P<vendor>\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|npm_|pypi-|hf_))[A-Za-z0-9_-]{16,}"
    r"|(?P<google>\bAIza)[A-Za-z0-9_-]{20,}"
    r"|(?P<own>\bhansei_)[0-9a-f]{16}_[A-Za-z0-9_-]{16,}"
    r"|(?P<jwt>(?<![A-Za-z0-9_-])ey)J[A-Za-z0-9_-]{5,4000}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"
    r"|(?P<pem>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)"
    # A member of a JSON object in a text, also where the JSON is itself a member of another one.
    r"|(?P<member>(?:api[_-]?key|authorization|token|password|passphrase|secret|cookie|credentials?|(?:private|access)"
    r"[_-]?key)(?P<quote>\\*\")\s{0,9}:\s{0,9}(?P=quote))(?!(?P=quote))."
    # An option of a command line, in a text or as JSON: `--api-token abc`, `"--api-token", "abc"`.
    r"|(?P<option>--(?:[a-z]{1,20}-){0,3}(?:(?:api|access)[_-]?key|token|password|passphrase|secret)"
    r"(?:\s{1,9}|\\*\"\s{0,9},\s{0,9}\\*\"))[^\s\"'\\-][^\s\"'\\]*"
    r"|(?P<assignment>(?:(?:api|access)[_-]?key|token|password|passphrase|secret|[?&](?:key|sig|signature))=)[^\s&;,\"']+"
)
_URL_USER = r"://[^\s:/@]*:(?!\d+(?:[/?#]|$))"
"""The part of a URL between its scheme and a password; the text after a port is no password."""
_MAX_PASSWORD_CHARS = 500
# A password may hold `/` and `@`.
_REDACTED_URL = rf"(?P<url>\b[a-z][a-z0-9+.-]{{0,30}}{_URL_USER})[^\s\"'<>]{{1,{_MAX_PASSWORD_CHARS}}}(?=@)"
_OPTION_ANCHOR = "--"
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
    *("cookie", "credential", "private", "access", "?key", "&key", "?sig", "&sig", _OPTION_ANCHOR),
)
"""The beginning of each match of `_REDACTED_FORMS` in lower case."""
_URL_ANCHOR = "://"
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
def _compile(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern. It is compiled when a text needs it: a hook starts often."""
    return re.compile(pattern, re.IGNORECASE)


def _redact_text(text: str) -> str:
    """Return a text without its secrets: as by `re.sub` of whole patterns, which takes twenty times as long."""
    folded = _fold_case(text)
    starts = {start for anchor in _ANCHORS if anchor in folded for start in _list_starts(folded, anchor)}
    url_starts = set(_list_url_starts(text, folded)) if _URL_ANCHOR in folded else set()
    parts: list[str] = []
    end = line_end = 0
    for start in sorted(starts | url_starts):
        if start < end:
            continue
        match = _compile(_REDACTED_FORMS).match(text, start)
        if match is None and start in url_starts:
            match = _compile(_REDACTED_URL).match(text, start)
        if match is not None:
            parts += (text[end:start], f"{match[match.lastgroup or 0]}{REDACTED}")
            end = match.end()
            if match.lastgroup == "pem":
                end = _find(folded, "-----end", end, len(text))
            elif match.lastgroup == "member":
                if line_end < end:
                    line_end = _find(text, "\n", end, len(text))
                end = _find(text, match["quote"], end, line_end)
    return "".join([*parts, text[end:]]) if parts else text


def _fold_case(text: str) -> str:
    """Return a text of the same length with the letters that the pattern takes for `a` to `z` in lower case."""
    if text.isascii():
        return text.lower()
    return text.replace("\u0130", "i").lower().replace("\u0131", "i").replace("\u017f", "s")


def _list_starts(folded: str, anchor: str) -> Iterator[int]:
    """Yield where a match that begins with an anchor may begin."""
    position = folded.find(anchor)
    while position >= 0:
        # A line of dashes has many, and none begins an option.
        if anchor != _OPTION_ANCHOR or folded[position + 2 : position + 3] != "-":
            yield position
        position = folded.find(anchor, position + 1)


def _list_url_starts(text: str, folded: str) -> Iterator[int]:
    """Yield where the match of a URL with a password may begin: at each word of its scheme.

    The password is tested here, once for all these starts, because a hostile text has many URLs without one.
    """
    beginning, user, after_password = _compile(r"\b[a-z]"), _compile(_URL_USER), _compile(r"[\s\"'<>]")
    at = end = -1
    position = folded.find(_URL_ANCHOR)
    while position >= 0:
        found = user.match(text, position)
        if found is not None:
            password = found.end()
            if at <= password and (at := text.find("@", password + 1)) < 0:
                return
            if end < password:
                after = after_password.search(text, password)
                end = after.start() if after else len(text)
            if at <= min(end, password + _MAX_PASSWORD_CHARS):
                scheme = folded[max(0, position - _MAX_SCHEME_CHARS) : position]
                first = position - len(scheme) + len(scheme.rstrip(_SCHEME_CHARS))
                yield from (start.start() for start in beginning.finditer(text, first, position))
        position = folded.find(_URL_ANCHOR, position + 1)


def _find(text: str, wanted: str, start: int, end: int) -> int:
    """Return the position of a text between two positions; the second one if it is not there."""
    position = text.find(wanted, start, end)
    return end if position < 0 else position
