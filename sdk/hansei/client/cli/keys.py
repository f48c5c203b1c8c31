"""`hansei keys` manages API keys, `hansei audit` lists audit records."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hansei.client.cli.options import Address, AsJson, connected

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from hansei.client.client import Client

app = typer.Typer(help="API keys of the gateway.", no_args_is_help=True)


class Scope(StrEnum):
    """What a key opens."""

    READ = "read"
    LEARN = "learn"
    REVIEW = "review"
    ADMIN = "admin"


Tenant = Annotated[str, typer.Option(help="The tenant. [default: yours]", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many, newest first.")]


@app.command()
def create(
    label: Annotated[str, typer.Argument(help="Whose key it is, or where it is used.")],
    scope: Annotated[list[Scope], typer.Option("--scope", "-s", help="What it opens; give it once for each.")],
    tenant: Tenant = "",
    days: Annotated[float | None, typer.Option(min=0, help="Days until it ends. [default: it does not]")] = None,
    calls_per_second: Annotated[float, typer.Option(min=0, help="0: as many as the gateway allows.")] = 0,
    calls_per_day: Annotated[int, typer.Option(min=0, help="0: as many as the gateway allows.")] = 0,
    addr: Address = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is printed this once; send it as `authorization: Bearer KEY`, or set HANSEI_TOKEN."""
    from hansei.gateway.v1.access_service_pb2 import AccessScope

    with connected(addr, local=False) as client:
        made = client.access.create_key(
            label=label,
            tenant=tenant,
            scopes=[AccessScope.Value(f"ACCESS_SCOPE_{each.name}") for each in scope],
            calls_per_second=calls_per_second,
            calls_per_day=calls_per_day,
            expires_at=None if days is None else _after(days),
        )
    from hansei.client.cli.output import print_json

    if as_json:
        print_json(made)
    else:
        typer.echo(made.text)


@app.command("list")
def list_keys(tenant: Tenant = "", addr: Address = None, as_json: AsJson = False) -> None:
    """Show keys; what opens is not among it."""
    with connected(addr, local=False) as client:
        found = list(_all_keys(client, tenant))
    _shown(found, as_json, "There are no keys.", _line)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="The id of the key, as `hansei keys list` shows it.")],
    addr: Address = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key: from now on it opens nothing, and calls in progress with it end."""
    with connected(addr, local=False) as client:
        key = client.access.revoke_key(key_id=key_id).key
    _shown([key], as_json, "", _line)


def audit(tenant: Tenant = "", limit: Limit = 20, addr: Address = None, as_json: AsJson = False) -> None:
    """List audit records: who changed what, newest first."""
    with connected(addr, local=False) as client:
        found = list(client.access.list_audit_records(tenant=tenant, page_size=limit).audit_records)

    def line(record: Any) -> str:
        what = f"{record.method} {' '.join(record.names)}".strip()
        return f"{record.at.ToDatetime():%Y-%m-%d %H:%M:%S}  {record.code:<12} {record.who:<24} {what}"

    _shown(found, as_json, "Nothing was changed.", line)


def _after(days: float) -> Timestamp:
    from google.protobuf.timestamp_pb2 import Timestamp

    moment = Timestamp()
    moment.FromDatetime(datetime.now(UTC) + timedelta(days=days))
    return moment


def _all_keys(client: Client, tenant: str) -> Iterator[Any]:
    token = ""
    while True:
        page = client.access.list_keys(tenant=tenant, page_size=1000, page_token=token)
        yield from page.keys
        if not (token := page.next_page_token):
            return


def _line(key: Any) -> str:
    scopes = ",".join(Scope[name.removeprefix("ACCESS_SCOPE_")].value for name in _names(key))
    used = f"used {key.last_used_at.ToDatetime():%Y-%m-%d %H:%M}" if key.HasField("last_used_at") else "never used"
    ended = "  revoked" if key.HasField("revoked_at") else ""
    return f"{key.id}  {key.label:<24} {key.tenant or '(operator)':<20} {scopes:<24} {used}{ended}"


def _names(key: Any) -> list[str]:
    from hansei.gateway.v1.access_service_pb2 import AccessScope

    return [AccessScope.Name(number) for number in key.scopes]


def _shown(found: list[Any], as_json: bool, nothing: str, line: Any) -> None:
    from hansei.client.cli.output import print_json

    for each in found:
        if as_json:
            print_json(each, line=True)
        else:
            typer.echo(line(each))
    if not found and not as_json:
        typer.echo(nothing)
