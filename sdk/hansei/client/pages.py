"""Read lists that the server returns page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
