"""The tables of API keys, calls by day, owners and audit records."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

from libs.storage.migrations import Migrations
from libs.storage.timestamps import Timestamp

MIGRATIONS = Migrations(Path(__file__).with_name("migrations"), "access_schema_version")

metadata = MetaData()

api_key = Table(
    "access_key",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("label", String(64), nullable=False),
    Column("tenant", String(32), nullable=False),
    Column("scopes", String(64), nullable=False),
    Column("secret_hash", LargeBinary(32), nullable=False),
    Column("calls_per_second", Float, nullable=False),
    Column("calls_per_day", Integer, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("created_by", String(256), nullable=False),
    Column("expires_at", Timestamp),
    Column("revoked_at", Timestamp),
    Column("last_used_at", Timestamp),
    Index("access_key_by_tenant", "tenant", "id"),
)

call_count = Table(
    "access_call_count",
    metadata,
    Column("day", String(10), primary_key=True),
    Column("principal", String(256), primary_key=True),
    Column("calls", BigInteger, nullable=False),
)

owner = Table(
    "access_owner",
    metadata,
    Column("kind", String(16), primary_key=True),
    Column("resource_id", String(256), primary_key=True),
    Column("tenant", String(32), nullable=False),
)

audit_record = Table(
    "access_audit_record",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("ended_at", Timestamp, nullable=False),
    Column("principal", String(256), nullable=False),
    Column("tenant", String(32), nullable=False),
    Column("method", String(256), nullable=False),
    Column("names", Text, nullable=False),
    Column("correlation_id", String(128), nullable=False),
    Column("request_id", String(36), nullable=False),
    Column("code", String(32), nullable=False),
    Index("access_audit_record_by_tenant", "tenant", "number"),
)
