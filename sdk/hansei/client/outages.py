"""Let an agent continue without its memory while hansei is unavailable."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from hansei.client.errors import DeadlineExceeded, Internal, ResourceExhausted, Unavailable

OnError = Literal["skip", "raise"]
"""`skip`: the agent continues without its memory while hansei is unavailable; `raise`: it gets the error."""

AWAY = (Unavailable, DeadlineExceeded, ResourceExhausted, Internal)
"""The errors of an outage. Others, such as a refused credential, do not pass by themselves and are always raised."""

_log = logging.getLogger("hansei.client")
_failing: set[str] = set()


def warn(event: str, **facts: object) -> None:
    """Log a warning in the logs of the user's program, with the facts as `name=value`."""
    _log.warning(" ".join([event, *(f"{name}={value}" for name, value in facts.items())]))


@contextmanager
def skip_outage(on_error: OnError, dataset: str) -> Iterator[None]:
    """Suppress an error of an outage unless `on_error` is `raise`; log only the first error of an outage."""
    try:
        yield
    except AWAY as error:
        if on_error == "raise":
            raise
        if dataset not in _failing:
            warn("hansei is unavailable; the agent continues without memory", dataset=dataset, error=error)
        _failing.add(dataset)
    else:
        _failing.discard(dataset)
