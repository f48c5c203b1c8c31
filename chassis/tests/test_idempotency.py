import pytest

from chassis.idempotency import find_key_holder, normalize_key
from hansei.curator.v1 import curator_service_pb2 as curator
from hansei.gateway.v1 import bulk_service_pb2 as bulk
from hansei.search.v1 import search_service_pb2 as search

KEY = "5D0C9D0E-3A4E-4B57-8C0C-0D8F3F5F2B11"


def test_two_spellings_of_one_uuid_are_one_key() -> None:
    request = curator.CurateRequest(request_id=KEY)

    assert normalize_key(request) == request.request_id == KEY.lower()


def test_the_key_of_a_stream_is_in_its_head() -> None:
    first = bulk.SubmitTrajectoriesRequest(head=bulk.JobHead(request_id=KEY))

    assert normalize_key(first) == first.head.request_id == KEY.lower()
    assert find_key_holder(bulk.SubmitTrajectoriesRequest()) is None


@pytest.mark.parametrize("text", ["", "x", "\n" + KEY, "{" + KEY + "}", KEY.replace("-", "")])
def test_a_value_that_is_no_uuid_is_left_to_the_rule_of_the_contract(text: str) -> None:
    request = curator.CurateRequest(request_id=text)

    assert normalize_key(request) == ""
    assert request.request_id == text


def test_a_read_has_no_key() -> None:
    assert find_key_holder(search.SearchRequest()) is None
