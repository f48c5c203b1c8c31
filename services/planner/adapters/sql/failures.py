"""What the failures of the planner's database mean to a caller."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from chassis.errors import Aborted, HanseiError, Unavailable


class StoreUnavailable(Unavailable):
    """The planner's database does not answer."""

    reason = "PLANNER_STORE_UNAVAILABLE"


class LostRace(Aborted):
    """Another replica wrote the same row first; try again."""

    reason = "PLANNER_STORE_LOST_RACE"


def translated(error: Exception) -> Exception:
    """What a failure of the store means to the caller; the driver's own words stay in its cause."""
    if isinstance(error, IntegrityError):
        lost = LostRace("another planner was first: nothing was written; try again", retry_after=0.1)
        lost.__cause__ = error
        return lost
    if isinstance(error, SQLAlchemyError | sqlite3.Error | OSError) and not isinstance(error, HanseiError):
        unavailable = StoreUnavailable("the planner's store does not answer: nothing was written", retry_after=1)
        unavailable.__cause__ = error
        return unavailable
    return error
