"""Registered kinds in SQL: their definitions as JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from services.validator.adapters.sql.database import Database
from services.validator.adapters.sql.requests import Answer, once
from services.validator.adapters.sql.schema import kind
from services.validator.adapters.sql.times import moment_of, utc_microseconds, utc_now
from services.validator.domain.errors import KindExists, KindNotFound
from services.validator.domain.findings import Severity
from services.validator.domain.kind_definition import (
    Check,
    Count,
    Expression,
    ForbiddenWords,
    KindDefinition,
    Reference,
    Required,
    Rule,
)
from services.validator.domain.requests import RequestKey

_CHECKS: dict[str, type[Check]] = {
    check.__name__: check for check in (Required, Reference, Count, ForbiddenWords, Expression)
}


@dataclass(frozen=True, slots=True)
class StoredKind:
    """A definition and when it was registered."""

    definition: KindDefinition
    created_at: datetime


class KindStore:
    """Keeps what users registered."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def add(self, request: RequestKey, definition: KindDefinition) -> StoredKind:
        """Stores a definition. Raises KindExists, RequestIdReused."""
        now = utc_microseconds(self._clock())

        def work(connection: Connection) -> Answer:
            return once(connection, request, now, lambda: _added(connection, definition, now))

        answer = await self._database.write(work)
        return StoredKind(definition, moment_of(answer["created"]))

    async def remove(self, request: RequestKey, name: str) -> None:
        """Removes a definition. Raises KindNotFound, RequestIdReused."""
        now = utc_microseconds(self._clock())
        await self._database.write(
            lambda connection: once(connection, request, now, lambda: _removed(connection, name))
        )

    async def get(self, name: str) -> StoredKind:
        """The definition of this name. Raises KindNotFound."""
        query = select(kind).where(kind.c.name == name)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise KindNotFound(name)
        return StoredKind(definition_of(row.definition), moment_of(row.created_at))

    async def page(self, after: str, limit: int) -> list[StoredKind]:
        """At most `limit` definitions by name, those after a name."""
        query = select(kind).where(kind.c.name > after).order_by(kind.c.name).limit(limit)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [StoredKind(definition_of(row.definition), moment_of(row.created_at)) for row in rows]


def _added(connection: Connection, definition: KindDefinition, now: int) -> Answer:
    if connection.execute(select(kind.c.name).where(kind.c.name == definition.name)).one_or_none() is not None:
        raise KindExists(definition.name)
    text = definition_text(definition)
    connection.execute(insert(kind).values(name=definition.name, definition=text, created_at=now))
    return {"created": now}


def _removed(connection: Connection, name: str) -> Answer:
    if connection.execute(delete(kind).where(kind.c.name == name)).rowcount == 0:
        raise KindNotFound(name)
    return {}


def definition_text(definition: KindDefinition) -> str:
    """A definition as JSON text."""
    rules = [
        {
            "code": rule.code,
            "severity": rule.severity.value,
            "message": rule.message,
            "kind": type(rule.check).__name__,
            "check": asdict(rule.check),
        }
        for rule in definition.rules
    ]
    fields = {
        "name": definition.name,
        "title": definition.title,
        "json_schema": definition.json_schema,
        "instructions": definition.instructions,
    }
    return json.dumps({**fields, "rules": rules}, ensure_ascii=False)


def definition_of(text: str) -> KindDefinition:
    """The definition in a JSON text that `definition_text` wrote."""
    stored = json.loads(text)
    return KindDefinition(**{**stored, "rules": tuple(_rule_of(rule) for rule in stored["rules"])})


def _rule_of(stored: dict[str, Any]) -> Rule:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in stored["check"].items()
    }
    return Rule(stored["code"], _CHECKS[stored["kind"]](**fields), Severity(stored["severity"]), stored["message"])
