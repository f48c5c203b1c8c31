"""Short, printable pieces of untrusted text: the only form in which a run's text enters a lesson."""

from __future__ import annotations

EXCERPT_CHARS = 80


def excerpt(text: str, chars: int = EXCERPT_CHARS) -> str:
    """The beginning of `text` on one line: control characters and doubled blanks removed, cut to `chars`."""
    clean = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * chars]).split())
    cut = len(clean) > chars or len(text) > 4 * chars
    return clean[: chars - 1].rstrip() + "…" if cut else clean


def first_line(text: str, chars: int) -> str:
    """The first line of `text` with something on it, as an excerpt."""
    return next((clean for line in text.splitlines() if (clean := excerpt(line, chars))), "")


def ends(text: str, chars: int) -> str:
    """`text`, or its first and last `chars` characters if it is longer than both together."""
    return text if len(text) <= 2 * chars else f"{text[:chars]}\n{text[-chars:]}"
