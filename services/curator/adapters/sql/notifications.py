"""Notify every curator of a commit (LISTEN/NOTIFY); polling finds the commits that a lost connection missed."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import URL, Text, cast, func

from chassis.logging import get_logger
from chassis.retry import RetryPolicy
from services.curator.adapters.sql import schema

CHANNEL = "hansei_playbook"
RECONNECT = RetryPolicy(attempts=None, first_pause=0.5, longest_pause=5.0)

NOTIFY = func.pg_notify(CHANNEL, schema.dataset.c.name + " " + cast(schema.dataset.c.revision, Text))
"""Notifies listeners of the revision of a dataset when, and only when, the transaction is committed."""

_log = get_logger(__name__)


async def listen(url: URL, on_commit: Callable[[str, int], None]) -> None:
    """Call `on_commit(dataset, revision)` for every commit of any curator, forever; reconnect after an error."""
    import psycopg  # only PostgreSQL needs it, and the import takes long

    _, options = url.get_dialect()().create_connect_args(url)  # a URL may name several servers

    async def receive_notices() -> None:
        async with await psycopg.AsyncConnection.connect(**options, autocommit=True) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            async for notice in connection.notifies():
                dataset, _, revision = notice.payload.partition(" ")
                on_commit(dataset, int(revision))
        raise psycopg.OperationalError("PostgreSQL closed the connection for notifications")

    def log_pause(attempt: int, pause: float, error: BaseException) -> None:
        cause = type(error).__name__
        _log.warning("lost the connection for commit notifications; polling", error=cause, pause=round(pause, 3))

    await RECONNECT.run(
        receive_notices, lambda error: isinstance(error, psycopg.Error | OSError), before_pause=log_pause
    )
