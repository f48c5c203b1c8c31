"""Find the partitions of PostgreSQL that statements read or write, by EXPLAIN beside each statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event

_EXPLAINED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")


@contextmanager
def record_partitions(*tables: str) -> Iterator[list[tuple[str, set[str]]]]:
    """Yield a list that gets each statement of this process on one of the tables, with the partitions in its plan.

    PostgreSQL chooses the partition of an inserted row when it executes the plan, so the plan has none.
    """
    is_partition = re.compile(rf"({'|'.join(tables)})_\d+")
    found: list[tuple[str, set[str]]] = []

    def explain(
        connection: Connection, _cursor: Any, statement: str, parameters: Any, _context: Any, is_many: bool
    ) -> None:
        if connection.dialect.name != "postgresql" or not _EXPLAINED.match(statement):
            return
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters[0] if is_many else parameters)
            names = set(_list_relations(cursor.fetchone()))
        if names & set(tables) or any(map(is_partition.fullmatch, names)):
            found.append((statement, {name for name in names if is_partition.fullmatch(name)}))

    event.listen(Engine, "before_cursor_execute", explain)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", explain)


def find_unpruned(statements: list[tuple[str, set[str]]]) -> list[str]:
    """Return the statements that touch several partitions of one table."""
    return [
        statement
        for statement, partitions in statements
        if len({name.rpartition("_")[0] for name in partitions}) < len(partitions)
    ]


def _list_relations(plan: Any) -> Iterator[str]:
    if isinstance(plan, dict):
        if "Relation Name" in plan:
            yield plan["Relation Name"]
        plan = list(plan.values())
    if isinstance(plan, list | tuple):
        for part in plan:
            yield from _list_relations(part)
