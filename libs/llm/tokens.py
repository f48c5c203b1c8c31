"""Estimate how many tokens a text takes, without the tokeniser of a model."""

from __future__ import annotations


def estimate_tokens(text: str) -> int:
    """Return the estimated tokens of `text`: one for four ASCII characters or one other character."""
    ascii_characters = len(text.encode("ascii", "ignore"))
    return -(-ascii_characters // 4) + len(text) - ascii_characters
