from __future__ import annotations

import pytest

from libs.llm.errors import PromptTooLong
from libs.llm.fitting import MIN_CHARS, ask_within_context, limit_chars


async def find_nothing() -> None:
    return None


def test_a_context_limits_the_characters() -> None:
    assert limit_chars(400_000, None) == 400_000
    assert limit_chars(400_000, 8_000) == 9_600
    assert limit_chars(5_000, 8_000) == 5_000
    assert limit_chars(5_000, 100) == MIN_CHARS


@pytest.mark.parametrize(("named", "expected"), [(None, [64_000, 32_000, 16_000]), (8_192, [64_000, 9_830])])
async def test_a_prompt_is_reduced_until_it_fits(named: int | None, expected: list[int]) -> None:
    budgets: list[int] = []

    async def ask(chars: int) -> str:
        budgets.append(chars)
        if chars > 20_000:
            raise PromptTooLong("too long", named)
        return "reply"

    assert await ask_within_context(ask, 64_000, find_nothing) == "reply"
    assert budgets == expected


async def test_a_prompt_that_never_fits_is_an_error() -> None:
    async def ask(chars: int) -> str:
        raise PromptTooLong("too long")

    with pytest.raises(PromptTooLong):
        await ask_within_context(ask, 10_000, find_nothing)


async def test_a_prompt_begins_with_the_size_that_the_context_is_known_to_have() -> None:
    async def find() -> int:
        return 8_192

    async def ask(chars: int) -> int:
        return chars

    assert await ask_within_context(ask, 64_000, find) == 9_830
