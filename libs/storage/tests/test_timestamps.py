"""Times are stored exactly, in order, and read as aware UTC datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, insert, select

from libs.storage.database import Database
from libs.storage.tests.tables import moment
from libs.storage.timestamps import from_microseconds, to_microseconds

AWARE = st.datetimes(timezones=st.just(UTC))


@given(AWARE)
def test_a_time_is_kept_to_the_microsecond(time: datetime) -> None:
    assert from_microseconds(to_microseconds(time)) == time


@given(AWARE, AWARE)
def test_the_order_of_times_is_the_order_of_numbers(first: datetime, other: datetime) -> None:
    assert (first < other) == (to_microseconds(first) < to_microseconds(other))


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(TypeError):
        to_microseconds(datetime(2026, 1, 1))


async def test_a_column_takes_and_returns_aware_times_in_both_databases(database: Database) -> None:
    east = timezone(timedelta(hours=9))
    times = [datetime(1969, 12, 31, 23, tzinfo=UTC), datetime(2026, 3, 1, 9, 0, 0, 1, tzinfo=east), None]
    rows = [{"number": number, "at": time} for number, time in enumerate(times)]
    await database.write(lambda connection: connection.execute(insert(moment), rows))
    stored = await database.read(
        lambda connection: connection.execute(select(moment.c.at).order_by(moment.c.number)).scalars().all()
    )
    assert stored == times
    assert [time.tzinfo for time in stored if time] == [UTC, UTC]
    latest = await database.read(lambda connection: connection.execute(select(func.max(moment.c.at))).scalar())
    assert latest == times[1]
    query = select(moment.c.number).where(moment.c.at < datetime(2026, 1, 1, tzinfo=UTC))
    assert await database.read(lambda connection: connection.execute(query).scalars().all()) == [0]
