"""Limits and failures that both writers of reports share."""

from __future__ import annotations

import re

from chassis.errors import shorten

BODY_CHARS = 1000
MAX_REPLY_BYTES = 16 * 1024 * 1024

_KEY_LIKE = re.compile(r"(?i)\b(?:sk-|bearer\s+)[A-Za-z0-9._*-]{6,}")


class ModelCallFailed(Exception):
    """One call failed; the text may be shown to users: it holds no key and at most `BODY_CHARS` characters (V-42)."""

    def __init__(self, text: str, secret: str = "") -> None:
        if secret:
            text = text.replace(secret, "***")
        super().__init__(shorten(_KEY_LIKE.sub("***", text), BODY_CHARS))


def read_token_count(value: object) -> int | None:
    """Return a token count of a provider; None for anything but a count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
