"""`hansei keys` manages API keys, `hansei audit` lists audit records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hansei.client.cli.command import command
from hansei.client.cli.groups import CommandGroup
from hansei.client.pages import iterate_items

if TYPE_CHECKING:
    from hansei.client.client import Client

app = CommandGroup("API keys of the gateway.")
commands = CommandGroup()


class Scope(StrEnum):
    """A group of methods that a key may call."""

    READ = "read"
    LEARN = "learn"
    REVIEW = "review"
    ADMIN = "admin"


Tenant = Annotated[str, typer.Option(help="The tenant. [default: your own]", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="The number of records.")]


@command(app, "access.format_key", local=False)
def create(
    client: Client,
    label: Annotated[str, typer.Argument(help="The name of its user or deployment: letters, digits, - and _.")],
    scope: Annotated[
        list[Scope], typer.Option("--scope", "-s", help="A scope: read, learn, review or admin; repeatable.")
    ],
    tenant: Tenant = "",
    days: Annotated[
        float | None, typer.Option(min=0, max=36_500, help="Days until the key expires. [default: never]")
    ] = None,
    calls_per_second: Annotated[
        float, typer.Option(min=0, help="The maximum number of calls per second; 0: the limit of the gateway.")
    ] = 0,
    calls_per_day: Annotated[
        int, typer.Option(min=0, help="The maximum number of calls per day; 0: the limit of the gateway.")
    ] = 0,
) -> object:
    """Create a key and print it once; send it as `authorization: Bearer KEY`, or set HANSEI_TOKEN."""
    from google.protobuf.timestamp_pb2 import Timestamp

    from hansei.gateway.v1.access_service_pb2 import AccessScope

    expires_at = None
    if days is not None:
        expires_at = Timestamp()
        expires_at.FromDatetime(datetime.now(UTC) + timedelta(days=days))
    return client.access.create_key(
        label=label,
        tenant=tenant,
        scopes=[AccessScope.Value(f"ACCESS_SCOPE_{member.name}") for member in scope],
        calls_per_second=calls_per_second,
        calls_per_day=calls_per_day,
        expires_at=expires_at,
    )


@command(app, "access.format_key_line", name="list", local=False, empty="There are no keys.")
def list_keys(client: Client, tenant: Tenant = "") -> object:
    """List keys, without their secrets."""
    return list(iterate_items(client.access.list_keys, "keys", tenant=tenant, page_size=1000))


@command(app, "access.format_key_line", local=False)
def revoke(
    client: Client,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="The id of the key, as `hansei keys list` shows it.")],
) -> object:
    """Revoke a key: further calls with it are refused, and its calls in progress end."""
    return [client.access.revoke_key(key_id=key_id).key]


NO_AUDIT_RECORDS = "There are no audit records. They are written only if the gateway requires credentials."


@command(commands, "access.format_audit_line", local=False, empty=NO_AUDIT_RECORDS)
def audit(client: Client, tenant: Tenant = "", limit: Limit = 20) -> object:
    """List audit records, newest first: the caller, the method and the result of each change.

    There are records only if the gateway requires credentials.
    """
    return list(client.access.list_audit_records(tenant=tenant, page_size=limit).audit_records)
