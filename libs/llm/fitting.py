"""Reduces a prompt until it fits the context of the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from chassis.logging import get_logger
from libs.llm.errors import PromptTooLong

T = TypeVar("T")

CHARS_PER_TOKEN = 2
"""Characters of a token, low enough for JSON and for Japanese with its punctuation."""
RESERVED_SHARE = 0.4
"""The share of a context that instructions and the reply may take."""
MAX_REDUCTIONS = 6
MIN_CHARS = 500

_log = get_logger(__name__)


def limit_chars(budget: int, context_tokens: int | None) -> int:
    """Return how many characters of data a prompt may have: `budget`, or fewer if the context is smaller."""
    if context_tokens is None:
        return budget
    return max(MIN_CHARS, min(budget, int(context_tokens * (1 - RESERVED_SHARE) * CHARS_PER_TOKEN)))


async def ask_within_context(
    ask: Callable[[int], Awaitable[T]], budget: int, find_context_tokens: Callable[[], Awaitable[int | None]]
) -> T:
    """Return the result of `ask`, called with the permitted characters of data: fewer after each refused prompt.

    `find_context_tokens` returns the size of the model's context, as far as it is known. Raise PromptTooLong.
    """
    chars = limit_chars(budget, await find_context_tokens())
    for _ in range(MAX_REDUCTIONS):
        try:
            return await ask(chars)
        except PromptTooLong as error:
            chars = min(chars // 2, limit_chars(budget, error.context_tokens))
            if chars < MIN_CHARS:
                raise
            _log.warning("prompt is beyond the context of the model; reducing it", chars=chars, error=str(error))
    return await ask(chars)
