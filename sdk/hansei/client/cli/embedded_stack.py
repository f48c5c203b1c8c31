"""The stack that a command runs in its own process: `hansei up`, `hansei demo`, and commands with `--local`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hansei.client.data_directory import DATA_DIRECTORY_VARIABLE, find_data_directory
from hansei.client.llm_provider import OFFLINE, PROVIDER_VARIABLE, choose_llm_provider

if TYPE_CHECKING:
    from chassis.settings import SettingRow
    from hansei.client.client import AsyncClient, Client


def build_stack_variables() -> dict[str, str]:
    """Return the variables with which a command runs a stack: its provider of models, and its data directory."""
    return {PROVIDER_VARIABLE: choose_llm_provider(), DATA_DIRECTORY_VARIABLE: str(find_data_directory())}


def configure_logging(level: str = "ERROR") -> None:
    """Log only from `level`, unless HANSEI_LOG_LEVEL is set: logs would mix with the output of the command."""
    from chassis import logging

    logging.configure(os.environ.get("HANSEI_LOG_LEVEL", level), "console")


@contextmanager
def embedded_client(variables: Mapping[str, str] | None = None, *, reads: bool = False) -> Iterator[Client]:
    """Yield a client of a stack in this process, with the settings of the environment, replaced by `variables`.

    If the command only `reads` and there is no data yet, the stack runs in a temporary directory.
    """
    from hansei.client.client import Client

    configure_logging()
    with ExitStack() as closing:
        settings = dict(variables or {})
        if reads and not _has_data():
            directory = closing.enter_context(TemporaryDirectory(prefix="hansei-"))
            settings = {**settings, **_collect_data_settings(Path(directory))}
        yield closing.enter_context(Client.local(**settings))


@asynccontextmanager
async def embedded_async_client() -> AsyncIterator[AsyncClient]:
    """Yield an async client of a stack in this process."""
    from hansei.client.client import AsyncClient

    configure_logging()
    async with AsyncClient.local() as client:
        yield client


def _collect_data_rows() -> list[SettingRow]:
    """Return the settings that name a file or a folder with data."""
    from chassis.settings import DATA_FOLDER, list_settings
    from hansei.client.server import load_server

    rows = [row for settings in load_server().load_settings_classes().values() for row in list_settings(settings)]
    return [row for row in rows if row.default.startswith(DATA_FOLDER)]


def _has_data() -> bool:
    """Return whether a database of the settings exists, or is on a server."""
    from hansei.client.local import set_environment

    with set_environment({DATA_DIRECTORY_VARIABLE: str(find_data_directory())}):
        values = [row.read_value()[0] for row in _collect_data_rows()]
    is_served = bool(os.environ.get("HANSEI_CURATOR_DATABASE_URL")) or any("://" in value for value in values)
    return is_served or any(Path(value).exists() for value in values)


def _collect_data_settings(directory: Path) -> dict[str, str]:
    return {f"HANSEI_{row.name.upper()}": str(directory / row.default) for row in _collect_data_rows()}


def build_temp_settings(directory: Path) -> dict[str, str]:
    """Return the settings of an offline stack that stores everything in `directory` and ignores the environment."""
    return {
        **_collect_data_settings(directory),
        "HANSEI_CURATOR_DATABASE_URL": "",
        PROVIDER_VARIABLE: OFFLINE,
        "HANSEI_EMBEDDING_PROVIDER": OFFLINE,
        "HANSEI_HTTP_ADDRESS": "",
        "HANSEI_METRICS_ADDRESS": "",
    }
