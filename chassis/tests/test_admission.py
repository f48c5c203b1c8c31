import pytest

from chassis.errors import ResourceExhausted
from chassis.server.admission import Admission


def test_one_call_too_many_is_refused_and_told_when_to_come_back() -> None:
    admission = Admission("calls of x", limit=2, retry_after=0.5)

    with admission, admission, pytest.raises(ResourceExhausted) as refused:
        admission.__enter__()

    assert refused.value.retry_after == 0.5
    assert refused.value.reason == "OVERLOADED"
    assert str(refused.value) == "2 calls of x are in flight, the limit is 2; try again later"


def test_a_place_is_free_again_after_a_call_however_it_ended() -> None:
    admission = Admission("calls of x", limit=1, retry_after=0.5)

    for _ in range(3):
        with pytest.raises(KeyError), admission:
            raise KeyError

    assert admission.in_flight == 0
