"""Page tokens of rankings are bound to their search."""

from __future__ import annotations

import pytest

from hansei.search.v1 import search_pb2, search_service_pb2
from libs.storage.page_tokens import PageTokenInvalid, encode_page_token
from services.search.rpc.convert.pages import decode_cursor, encode_cursor
from services.search.usecases.pinned_rankings import PageCursor

CURSOR = PageCursor("ranking", 7, "model", 3)


def request(text: str, token: str = "", size: int = 3, min_revision: int = 0) -> search_service_pb2.SearchRequest:
    return search_service_pb2.SearchRequest(
        dataset="d",
        query=search_pb2.SearchQuery(query_text=text),
        page_size=size,
        page_token=token,
        min_revision=min_revision,
    )


def test_a_token_continues_its_own_search_with_another_size_and_revision() -> None:
    token = encode_cursor(request("q"), CURSOR)
    assert decode_cursor(request("q", token, size=10, min_revision=5)) == CURSOR


def test_the_first_page_has_no_cursor_and_the_last_no_token() -> None:
    assert decode_cursor(request("q")) is None
    assert encode_cursor(request("q"), None) == ""


def test_a_token_of_another_query_is_refused() -> None:
    with pytest.raises(PageTokenInvalid):
        decode_cursor(request("another", encode_cursor(request("q"), CURSOR)))


def test_a_forged_offset_is_refused() -> None:
    token = encode_page_token(request("q"), "ranking", 7, "model", -1, ignored=("min_revision",))
    with pytest.raises(PageTokenInvalid):
        decode_cursor(request("q", token))
