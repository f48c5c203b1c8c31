import pytest

from chassis.errors import ResourceExhausted
from chassis.server.admission import Admission


def test_a_call_above_the_limit_is_refused_with_a_retry_delay() -> None:
    admission = Admission("calls of x", limit=2, retry_after=0.5)

    with admission, admission, pytest.raises(ResourceExhausted) as refused:
        admission.__enter__()

    assert refused.value.retry_after == 0.5
    assert refused.value.reason == "OVERLOADED"
    assert str(refused.value) == "2 calls of x are in flight, the limit is 2; try again later"


def test_an_admission_slot_is_free_after_every_end_of_a_call() -> None:
    admission = Admission("calls of x", limit=1, retry_after=0.5)

    for _ in range(3):
        with pytest.raises(KeyError), admission:
            raise KeyError

    assert admission.in_flight == 0
