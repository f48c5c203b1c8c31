"""Let an agent continue without its memory while hansei is unavailable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from chassis.logging import get_logger
from hansei.client.errors import DeadlineExceeded, Internal, ResourceExhausted, Unavailable

OnError = Literal["skip", "raise"]
"""`skip`: the agent continues without its memory while hansei is unavailable; `raise`: it gets the error."""

AWAY = (Unavailable, DeadlineExceeded, ResourceExhausted, Internal)
"""The errors of an outage. Others, such as a refused credential, do not pass by themselves and are always raised."""

_log = get_logger(__name__)
_failing: set[str] = set()


@contextmanager
def skip_outage(on_error: OnError, dataset: str) -> Iterator[None]:
    """Suppress an error of an outage unless `on_error` is `raise`; log the first one until a call succeeds again."""
    try:
        yield
    except AWAY as error:
        if on_error == "raise":
            raise
        if dataset not in _failing:
            _log.warning("hansei is unavailable; the agent continues without memory", dataset=dataset, error=str(error))
        _failing.add(dataset)
    else:
        _failing.discard(dataset)
