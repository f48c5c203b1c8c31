"""Notify every curator of a commit at once (LISTEN/NOTIFY); polling finds what a lost connection missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sqlalchemy import URL, Connection, text

from chassis.logging import get_logger

CHANNEL = "hansei_playbook"
RECONNECT_SECONDS = 5

_NOTIFY = text("SELECT pg_notify(:channel, :notice)")
_log = get_logger(__name__)


def notify(connection: Connection, dataset: str, revision: int) -> None:
    """Notify listeners of a revision when, and only when, the transaction is committed."""
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"channel": CHANNEL, "notice": f"{dataset} {revision}"})


async def listen(url: URL, reached: Callable[[str, int], None]) -> None:
    """Call `reached(dataset, revision)` for every commit of any curator, forever; reconnects when it has to."""
    import psycopg  # where there is no PostgreSQL it is not needed, and it takes long to import

    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(address, autocommit=True) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                async for notice in connection.notifies():
                    dataset, _, revision = notice.payload.partition(" ")
                    reached(dataset, int(revision))
        except (psycopg.Error, OSError) as error:
            _log.warning("lost the connection for commit notifications; polling", error=type(error).__name__)
        await asyncio.sleep(RECONNECT_SECONDS)
