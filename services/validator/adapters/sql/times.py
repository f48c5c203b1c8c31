"""Times as the tables keep them: whole microseconds since 1970 UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """The present time, aware."""
    return datetime.now(UTC)


def utc_microseconds(moment: datetime) -> int:
    """An aware time as the tables keep it."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(microseconds: int) -> datetime:
    """The aware UTC time that the tables keep so."""
    return _EPOCH + timedelta(microseconds=microseconds)
