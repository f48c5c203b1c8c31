"""How executions are listed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_, func, or_, select

from services.planner.adapters.sql import schema
from services.planner.adapters.sql.codec import at, micros
from services.planner.usecases.store import ExecutionStatus, Filter, Summary

_rows = schema.executions


def selected(wanted: Filter) -> Any:
    """The statement that lists executions, newest first."""
    statement = select(_rows).order_by(_rows.c.started_at.desc(), _rows.c.execution_id.desc()).limit(wanted.limit)
    if wanted.status is not None:
        statement = statement.where(_rows.c.status == wanted.status.value)
    if wanted.prefix:
        # Not LIKE, which does not tell upper from lower case in SQLite.
        # No index serves it, on purpose: in the order of time a page is full after a few rows. Who has less than a page
        # costs one walk through the index of time: of 100,000 executions 25 ms in PostgreSQL, 95 ms in SQLite. An index
        # would need an expression in each database's words, or a column that a former version's replicas leave empty.
        statement = statement.where(func.substr(_rows.c.execution_id, 1, len(wanted.prefix)) == wanted.prefix)
    if wanted.query_contains:
        statement = statement.where(_rows.c.query.contains(wanted.query_contains, autoescape=True))
    if wanted.started_after is not None:
        statement = statement.where(_rows.c.started_at >= micros(wanted.started_after))
    if wanted.before is not None:
        time, execution_id = wanted.before
        earlier = and_(_rows.c.started_at == time, _rows.c.execution_id < execution_id)
        statement = statement.where(or_(_rows.c.started_at < time, earlier))
    return statement


def summary(row: Any) -> Summary:
    """A row as an execution in a list."""
    return Summary(
        row.execution_id,
        row.query,
        ExecutionStatus(row.status),
        at(row.started_at),
        at(row.updated_at),
        row.sequence,
    )
