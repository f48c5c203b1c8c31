from __future__ import annotations

import asyncio
from types import SimpleNamespace

from chassis.pages import iterate_pages


def test_every_page_is_read_once_with_the_token_of_the_page_before() -> None:
    next_tokens = {"": "a", "a": "b", "b": ""}
    request = SimpleNamespace(page_token="", prefix="kept")

    async def list_page(request: SimpleNamespace) -> SimpleNamespace:
        return SimpleNamespace(
            name=f"{request.prefix} {request.page_token}", next_page_token=next_tokens[request.page_token]
        )

    async def read_names() -> list[str]:
        return [page.name async for page in iterate_pages(list_page, request)]

    assert asyncio.run(read_names()) == ["kept ", "kept a", "kept b"]
