"""A page token is opaque, continues the query that it was returned for, and no other."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansei.playbook.v1 import playbook_service_pb2 as service
from libs.storage.page_tokens import PageTokenInvalid, decode_page_token, encode_page_token

QUERY = service.ListBulletsRequest(dataset="d", sections=["a"], page_size=10)


def following(request: service.ListBulletsRequest, token: str) -> service.ListBulletsRequest:
    copy = service.ListBulletsRequest()
    copy.CopyFrom(request)
    copy.page_token = token
    return copy


def test_the_first_page_has_no_cursor() -> None:
    assert decode_page_token(QUERY, int, str) is None


@given(st.integers(0, 2**63 - 1), st.text())
def test_a_token_returns_its_cursor(number: int, text: str) -> None:
    token = encode_page_token(QUERY, number, text)
    assert decode_page_token(following(QUERY, token), int, str) == (number, text)


def test_a_token_returns_a_time_and_refuses_one_that_no_clock_shows() -> None:
    time = datetime(2026, 11, 28, 21, 5, 0, 123_456, UTC)
    assert decode_page_token(following(QUERY, encode_page_token(QUERY, time, "a")), datetime, str) == (time, "a")
    with pytest.raises(PageTokenInvalid):
        decode_page_token(following(QUERY, encode_page_token(QUERY, 2**62, "a")), datetime, str)


def test_the_page_size_may_change_between_pages() -> None:
    request = following(QUERY, encode_page_token(QUERY, 7))
    request.page_size = 99
    assert decode_page_token(request, int) == (7,)
    assert encode_page_token(request, 8) == encode_page_token(QUERY, 8)


@pytest.mark.parametrize(
    "other",
    [
        service.ListBulletsRequest(dataset="e", sections=["a"]),
        service.ListBulletsRequest(dataset="d", sections=["b"]),
        service.ListBulletsRequest(dataset="d"),
        service.GetHistoryRequest(dataset="d"),
    ],
)
def test_a_token_of_another_query_is_refused(other: service.ListBulletsRequest) -> None:
    other.page_token = encode_page_token(QUERY, 7)
    with pytest.raises(PageTokenInvalid) as caught:
        decode_page_token(other, int)
    assert (caught.value.reason, caught.value.violations[0].field) == ("PAGE_TOKEN_INVALID", "page_token")


def test_a_token_of_another_scope_is_refused_and_ignored_fields_may_change() -> None:
    request = following(QUERY, encode_page_token(QUERY, 7, scope="one"))
    assert decode_page_token(request, int, scope="one") == (7,)
    with pytest.raises(PageTokenInvalid):
        decode_page_token(request, int, scope="two")
    request = following(QUERY, encode_page_token(QUERY, 7, ignored=("sections",)))
    request.sections.append("b")
    assert decode_page_token(request, int, ignored=("sections",)) == (7,)


@given(st.text() | st.binary().map(lambda content: base64.urlsafe_b64encode(content).decode()))
def test_an_invalid_token_is_refused(text: str) -> None:
    if text:
        with pytest.raises(PageTokenInvalid):
            decode_page_token(following(QUERY, text.replace("\ud800", "")) if text else QUERY, int)


@pytest.mark.parametrize("cursor", [[7, 8], ["7"], [7.0], [None], [True], [[7]], {}, 7])
def test_a_cursor_of_other_kinds_is_refused(cursor: object) -> None:
    digest = base64.urlsafe_b64decode(encode_page_token(QUERY, 7))[:8]
    token = base64.urlsafe_b64encode(digest + json.dumps(cursor).encode()).decode()
    with pytest.raises(PageTokenInvalid):
        decode_page_token(following(QUERY, token), int)


@pytest.mark.parametrize("value", [-1, 2**63, 10**30, "\ud800"])
def test_a_cursor_that_no_row_has_is_refused(value: str | int) -> None:
    digest = base64.urlsafe_b64decode(encode_page_token(QUERY, 7))[:8]
    token = base64.urlsafe_b64encode(digest + json.dumps([value]).encode()).decode()
    with pytest.raises(PageTokenInvalid):
        decode_page_token(following(QUERY, token), type(value))


def test_a_cursor_too_deep_to_parse_is_refused() -> None:
    digest = base64.urlsafe_b64decode(encode_page_token(QUERY, 7))[:8]
    token = base64.urlsafe_b64encode(digest + b"[" * 100_000).decode()
    with pytest.raises(PageTokenInvalid):
        decode_page_token(following(QUERY, token), int)
