"""Requests that were done already: a repeated one gets the stored answer and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, insert, select

from chassis.errors import RequestIdReused
from services.validator.adapters.sql.schema import request
from services.validator.domain.requests import RequestKey

Answer = dict[str, Any]
"""An answer as JSON keeps it."""


def once(connection: Connection, key: RequestKey, now: int, work: Callable[[], Answer]) -> Answer:
    """The answer of `work`, or the stored one if this request was done before. Raises RequestIdReused."""
    stored = connection.execute(select(request).where(request.c.request_id == key.request_id)).one_or_none()
    if stored is not None:
        if stored.fingerprint != key.fingerprint:
            raise RequestIdReused(key.request_id)
        answer: Answer = json.loads(stored.answer)
        return answer
    answer = work()
    values = {"request_id": key.request_id, "fingerprint": key.fingerprint, "done_at": now}
    connection.execute(insert(request).values(**values, answer=json.dumps(answer, ensure_ascii=False)))
    return answer
