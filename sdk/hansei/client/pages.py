"""Read lists that the server returns page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any


def iterate_items(list_page: Callable[..., Any], field: str, **request: Any) -> Iterator[Any]:
    """Yield the items of all pages of a list method; `field` is the field of its response that has the items."""
    token = ""
    while True:
        page = list_page(page_token=token, **request)
        yield from getattr(page, field)
        token = page.next_page_token
        if not token:
            return


def join_pages(read_page: Callable[..., Any], **request: Any) -> Any:
    """Return one response with the contents of all pages of a method, such as a playbook or a difference."""
    joined = read_page(**request)
    while token := joined.next_page_token:
        joined.next_page_token = ""
        joined.MergeFrom(read_page(page_token=token, **request))
    return joined


async def join_pages_async(read_page: Callable[..., Awaitable[Any]], **request: Any) -> Any:
    """Return the joined pages of an asynchronous method, see `join_pages`."""
    joined = await read_page(**request)
    while token := joined.next_page_token:
        joined.next_page_token = ""
        joined.MergeFrom(await read_page(page_token=token, **request))
    return joined
