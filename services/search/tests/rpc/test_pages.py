"""Page tokens of rankings are bound to their search."""

from __future__ import annotations

import pytest

from hansei.search.v1 import search_pb2, search_service_pb2
from libs.storage.page_tokens import PageTokenInvalid, encode_page_token
from services.search.rpc.servicer.pages import place_in_ranking, ranking_token
from services.search.usecases.pinned_rankings import Place

PLACE = Place("pin", 7, "model", 3)


def request(text: str, token: str = "", size: int = 3, min_revision: int = 0) -> search_service_pb2.SearchRequest:
    return search_service_pb2.SearchRequest(
        dataset="d",
        query=search_pb2.SearchQuery(query_text=text),
        page_size=size,
        page_token=token,
        min_revision=min_revision,
    )


def test_a_token_continues_its_own_search_with_another_size_and_revision() -> None:
    token = ranking_token(request("q"), PLACE)
    assert place_in_ranking(request("q", token, size=10, min_revision=5)) == PLACE


def test_the_first_page_has_no_place_and_the_last_no_token() -> None:
    assert place_in_ranking(request("q")) is None
    assert ranking_token(request("q"), None) == ""


def test_a_token_of_another_query_is_refused() -> None:
    with pytest.raises(PageTokenInvalid):
        place_in_ranking(request("another", ranking_token(request("q"), PLACE)))


def test_a_forged_offset_is_refused() -> None:
    token = encode_page_token(request("q"), "pin", 7, "model", -1, ignored=("min_revision",))
    with pytest.raises(PageTokenInvalid):
        place_in_ranking(request("q", token))
