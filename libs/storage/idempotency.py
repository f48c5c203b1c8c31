"""Idempotency: a mutation with a `request_id` (AIP-155) happens once, and repeating it returns the stored response.

The response is stored in the transaction of the change. A service puts one `IdempotencyTable` into its MetaData and
either runs its work by `run_once` or `write_once`, which read the row first, or, where the work can be done again on
any state, calls `store_response` at its end, which reads nothing unless the request was done before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from google.protobuf.message import Message
from sqlalchemy import Column, Connection, Index, LargeBinary, MetaData, Row, Table, Text, bindparam, delete, select
from sqlalchemy.schema import SchemaItem

from chassis.errors import Aborted, RequestIdReused
from chassis.idempotency import normalize_request_id
from libs.storage.database import Database
from libs.storage.engines import get_insert
from libs.storage.timestamps import Timestamp, utc_now

RETRY_AFTER_SECONDS = 0.1
TENANT_SEPARATOR = "--"
"""The end of the prefix of a tenant in a name (`gateway.access.domain.principal`)."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The key of a mutation: the same id with the same method and payload is the same request.

    The id is a UUID and is compared in lower case. `scope` separates callers whose ids are independent of each other,
    so that nobody learns which ids others have used.
    """

    request_id: str
    method: str
    digest: bytes
    scope: str = ""

    def __post_init__(self) -> None:
        """Normalise the id."""
        object.__setattr__(self, "request_id", normalize_request_id(self.request_id))

    @classmethod
    def for_message(cls, message: Message, *, scope: str = "") -> IdempotencyKey:
        """Return the key of a request message with a `request_id`; its method is the message's name.

        The digest covers every field, unknown ones included.
        """
        request_id: str = getattr(message, "request_id", "")
        normalized = normalize_request_id(request_id)
        if normalized != request_id:
            copy = type(message)()
            copy.CopyFrom(message)
            message = copy
            setattr(message, "request_id", normalized)  # noqa: B010  not every message has the field
        digest = hashlib.sha256(message.SerializeToString(deterministic=True)).digest()
        return cls(normalized, message.DESCRIPTOR.name.removesuffix("Request"), digest, scope)

    @property
    def row_id(self) -> str:
        """Return the id under which the response is stored."""
        return f"{self.scope}{self.request_id}"


def find_scope(name: str) -> str:
    """Return the scope of requests on a resource: its tenant's prefix, with the separator; empty without a tenant."""
    tenant, separator, _ = name.partition(TENANT_SEPARATOR)
    return tenant + separator if separator else ""


class RequestDone(Aborted):
    """The request was done before, by a caller that was faster; `response` is its stored response.

    The transaction that finds this out must be rolled back. A store that does not catch it tells the caller to send
    the request again, which then gets the response.
    """

    reason = "REQUEST_DONE"

    def __init__(self, response: bytes) -> None:
        problem = "another call with this request_id was faster: send the same request again to get its response"
        super().__init__(problem, retry_after=RETRY_AFTER_SECONDS)
        self.response = response


class IdempotencyTable:
    """The stored responses of one service."""

    def __init__(self, metadata: MetaData, name: str, *items: SchemaItem) -> None:
        """`items` are columns of the service itself, which `store_response` gets by name, and their indexes."""
        self.table = Table(
            name,
            metadata,
            Column("request_id", Text, primary_key=True),
            Column("method", Text, nullable=False),
            Column("digest", LargeBinary, nullable=False),
            Column("payload", LargeBinary, nullable=False),
            Column("response", LargeBinary, nullable=False),
            Column("stored_at", Timestamp, nullable=False),
            *items,
            Index(f"{name}_stored_at", "stored_at"),
        )
        self._row = select(self.table).where(self.table.c.request_id == bindparam("id"))
        self._older = delete(self.table).where(self.table.c.stored_at < bindparam("limit"))
        self._inserts: dict[str, Any] = {}

    def find_response(self, connection: Connection, key: IdempotencyKey | None) -> bytes | None:
        """Return the stored response of a request; None for one that is not done, or has no key.

        Raises RequestIdReused when the id was used with another method or payload.
        """
        row = None if key is None else connection.execute(self._row, {"id": key.row_id}).first()
        return None if row is None or key is None else _read_matching_response(row, key)

    def find_request(
        self, connection: Connection, request_id: str, method: str, scope: str = ""
    ) -> tuple[bytes, bytes] | None:
        """Return the payload and the response stored for a request id; None if no call of `method` is."""
        row = connection.execute(self._row, {"id": f"{scope}{normalize_request_id(request_id)}"}).first()
        return (bytes(row.payload), bytes(row.response)) if row is not None and row.method == method else None

    def store_response(
        self,
        connection: Connection,
        key: IdempotencyKey | None,
        response: bytes,
        now: datetime,
        payload: bytes = b"",
        **columns: str,
    ) -> None:
        """Store a response, and the part of the request worth keeping with it, unless there is no key.

        Raises RequestDone when the request was done before, RequestIdReused when another request used its id; then
        the transaction, or its savepoint, must be rolled back.
        """
        if key is None:
            return
        values = {"request_id": key.row_id, "method": key.method, "digest": key.digest, "payload": payload}
        insert = self._build_insert(connection.dialect.name)
        if connection.execute(insert, {**values, "response": response, "stored_at": now, **columns}).rowcount == 0:
            raise RequestDone(_read_matching_response(connection.execute(self._row, {"id": key.row_id}).one(), key))

    def run_once(
        self,
        connection: Connection,
        key: IdempotencyKey | None,
        now: datetime,
        work: Callable[[], bytes],
        payload: bytes = b"",
    ) -> bytes:
        """Return the stored response of a request that is done, else the response of `work`, which is then stored."""
        stored = self.find_response(connection, key)
        if stored is not None:
            return stored
        response = work()
        self.store_response(connection, key, response, now, payload)
        return response

    async def write_once(
        self,
        database: Database,
        key: IdempotencyKey | None,
        now: datetime,
        work: Callable[[Connection], Any],
        lock_key: str = "",
    ) -> Any:
        """Return the result of `work`, which is done and stored once for each request, in a transaction of `database`.

        The result is stored as JSON, None as no bytes. `lock_key` is the key of `Database.write`.
        """

        def write(connection: Connection) -> bytes:
            return self.run_once(connection, key, now, lambda: _encode_result(work(connection)))

        response = await database.write(write, lock_key)
        return json.loads(response) if response else None

    def delete_older(self, connection: Connection, limit: datetime) -> int:
        """Delete the responses stored before `limit`; return their number. A later retry would repeat its mutation."""
        return connection.execute(self._older, {"limit": limit}).rowcount

    async def delete_expired(
        self, database: Database, retention: timedelta, clock: Callable[[], datetime] = utc_now
    ) -> int:
        """Delete the responses in `database` that are older than `retention`; return their number."""
        return await database.write(partial(self.delete_older, limit=clock() - retention))

    def _build_insert(self, dialect: str) -> Any:
        if dialect not in self._inserts:
            statement = get_insert(dialect)(self.table).on_conflict_do_nothing(index_elements=["request_id"])
            self._inserts[dialect] = statement.execution_options(preserve_rowcount=True)
        return self._inserts[dialect]


def _encode_result(result: Any) -> bytes:
    return b"" if result is None else json.dumps(result).encode()


def _read_matching_response(row: Row[Any], key: IdempotencyKey) -> bytes:
    if (row.method, bytes(row.digest)) != (key.method, key.digest):
        raise RequestIdReused(key.request_id)
    return bytes(row.response)
