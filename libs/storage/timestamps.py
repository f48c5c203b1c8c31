"""Store times as whole microseconds since 1970 UTC, read them as aware datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.types import TypeDecorator

from libs.storage.errors import UndecodableRow

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_microseconds(time: datetime) -> int:
    """Return the microseconds since 1970 UTC of an aware datetime. Raises TypeError for a naive one."""
    return (time - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    """Return the aware UTC datetime of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=microseconds)


def utc_now() -> datetime:
    """Return the current time, aware, UTC."""
    return datetime.now(UTC)


class Timestamp(TypeDecorator[datetime]):
    """A column of aware UTC datetimes, stored as a BIGINT of microseconds: exact, ordered, alike in both databases."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> int | None:
        """Return the stored form."""
        return None if value is None else to_microseconds(value)

    def process_result_value(self, value: Any, dialect: Any) -> datetime | None:
        """Return the aware UTC datetime. Raises UndecodableRow."""
        try:
            return None if value is None else from_microseconds(value)
        except (TypeError, OverflowError) as error:
            raise UndecodableRow("the database has a value that is not a time") from error
