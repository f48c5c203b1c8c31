"""Read lists that a service returns page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any


async def iterate_pages(call: Callable[[Any], Awaitable[Any]], request: Any) -> AsyncIterator[Any]:
    """Yield the responses of all pages of a list method of a stub; set the `page_token` of the request for each."""
    while True:
        page = await call(request)
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
