"""Short, printable excerpts of untrusted text: the only form in which the text of a trajectory enters a lesson."""

from __future__ import annotations

EXCERPT_CHARS = 80


def shorten_text(text: str, chars: int = EXCERPT_CHARS) -> str:
    """Return the beginning of `text` on one line, printable and at most `chars` long."""
    start = text[: 4 * chars]
    printable = start if start.isprintable() else "".join(char if char.isprintable() else " " for char in start)
    clean = " ".join(printable.split())
    cut = len(clean) > chars or len(text) > 4 * chars
    return clean[: chars - 1].rstrip() + "…" if cut else clean


def shorten_first_line(text: str, chars: int) -> str:
    """Return the first non-blank line of `text` as an excerpt."""
    return next((clean for line in text.splitlines() if (clean := shorten_text(line, chars))), "")


def shorten_middle(text: str, chars: int) -> str:
    """Return `text`, or its first and last `chars` characters if it is longer than both together."""
    return text if len(text) <= 2 * chars else f"{text[:chars]}\n{text[-chars:]}"
