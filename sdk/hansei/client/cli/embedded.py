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


def provider() -> str:
    """The provider of chat models that a stack started here uses: what the environment names, else none (`offline`)."""
    return os.environ.get("HANSEI_LLM_PROVIDER") or os.environ.get("LLM_PROVIDER") or OFFLINE


@contextmanager
def embedded_client(variables: Mapping[str, str] | None = None) -> Iterator[Client]:
    """A client of a stack in this process, on the data of the environment unless `variables` say otherwise.

    Beside a command's own output only errors are logged, unless HANSEI_LOG_LEVEL asks for more.
    """
    from chassis import logging
    from hansei.client.client import Client

    logging.configure(os.environ.get("HANSEI_LOG_LEVEL", "ERROR"), "console")
    with Client.local(**{"HANSEI_LLM_PROVIDER": provider(), **(variables or {})}) as client:
        yield client


@asynccontextmanager
async def embedded_async_client() -> AsyncIterator[AsyncClient]:
    """The same for an async command."""
    from chassis import logging
    from hansei.client.client import AsyncClient

    logging.configure(os.environ.get("HANSEI_LOG_LEVEL", "ERROR"), "console")
    async with AsyncClient.local(HANSEI_LLM_PROVIDER=provider()) as client:
        yield client


def throwaway(directory: Path) -> dict[str, str]:
    """Settings of an offline stack that keeps everything in `directory`, whatever the environment says."""
    return {
        **{f"HANSEI_{name.upper()}": str(directory / default) for name, default in _kept_files().items()},
        "HANSEI_CURATOR_DATABASE_URL": "",
        "HANSEI_LLM_PROVIDER": OFFLINE,
        "HANSEI_EMBEDDING_PROVIDER": OFFLINE,
        "HANSEI_HTTP_ADDRESS": "",
        "HANSEI_METRICS_ADDRESS": "",
    }


def _kept_files() -> dict[str, Path]:
    """The settings that name a file or folder of data, with their defaults: those that lie under `data/`."""
    from chassis.settings import settings_table
    from hansei.client.server import server

    rows = [row for each in server().settings_classes().values() for row in settings_table(each)]
    return {row.name: Path(row.default) for row in rows if row.default.startswith("data/")}
