"""The stack that a command runs in its own process: `hansei up`, `hansei demo`, and commands with `--local`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hansei.client.client import AsyncClient, Client

OFFLINE = "offline"


def llm_provider() -> str:
    """Return the provider of chat models for a stack that a command starts: that of the environment, else offline."""
    return os.environ.get("HANSEI_LLM_PROVIDER") or os.environ.get("LLM_PROVIDER") or OFFLINE


def _configure_logging() -> None:
    """Log only errors, unless HANSEI_LOG_LEVEL is set: logs would mix with the output of the command."""
    from chassis import logging

    logging.configure(os.environ.get("HANSEI_LOG_LEVEL", "ERROR"), "console")


@contextmanager
def embedded_client(variables: Mapping[str, str] | None = None) -> Iterator[Client]:
    """Yield a client of a stack in this process, with the settings of the environment, replaced by `variables`."""
    from hansei.client.client import Client

    _configure_logging()
    with Client.local(**{"HANSEI_LLM_PROVIDER": llm_provider(), **(variables or {})}) as client:
        yield client


@asynccontextmanager
async def embedded_async_client() -> AsyncIterator[AsyncClient]:
    """Yield an async client of a stack in this process."""
    from hansei.client.client import AsyncClient

    _configure_logging()
    async with AsyncClient.local(HANSEI_LLM_PROVIDER=llm_provider()) as client:
        yield client


def temporary_settings(directory: Path) -> dict[str, str]:
    """Return the settings of an offline stack that stores everything in `directory`, whatever the environment is."""
    from chassis.settings import settings_table
    from hansei.client.server import server

    rows = [row for settings in server().settings_classes().values() for row in settings_table(settings)]
    data_files = {row.name: row.default for row in rows if row.default.startswith("data/")}
    return {
        **{f"HANSEI_{name.upper()}": str(directory / default) for name, default in data_files.items()},
        "HANSEI_CURATOR_DATABASE_URL": "",
        "HANSEI_LLM_PROVIDER": OFFLINE,
        "HANSEI_EMBEDDING_PROVIDER": OFFLINE,
        "HANSEI_HTTP_ADDRESS": "",
        "HANSEI_METRICS_ADDRESS": "",
    }
