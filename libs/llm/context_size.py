"""Reads the size of a model's context from an OpenAI-compatible server, as far as the server says it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from chassis.logging import get_logger

READ_SECONDS = 2.0
_MODEL_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""The fields of an entry of `/models` in which vLLM, SGLang and hosted servers state the context that they serve."""

_log = get_logger(__name__)


class HttpClient(Protocol):
    """The used part of an `httpx.AsyncClient`."""

    async def get(self, url: str, /, *, headers: Mapping[str, str]) -> Any:
        """Return the response."""


async def read_context_tokens(client: HttpClient, base_url: str, key: str, model: str) -> int | None:
    """Return the context length of `model` in tokens; None if the server does not state it or cannot be read.

    The server of llama.cpp states its context length in `/props`. Its `/models` states that of the training, which is
    used if no other is known.
    """
    address = base_url.rstrip("/")
    models, props = await asyncio.gather(
        _read_page(client, f"{address}/models", key), _read_page(client, f"{address.removesuffix('/v1')}/props", key)
    )
    entry = _find_entry(models, model)
    served = next(_list_sizes(entry, _MODEL_FIELDS), None)
    if served is not None:
        return served
    started = next(_list_sizes(_get_field(props, "default_generation_settings"), ("n_ctx",)), None)
    if started is not None:
        return started
    return next(_list_sizes(_get_field(entry, "meta"), ("n_ctx", "n_ctx_train")), None)


async def _read_page(client: HttpClient, url: str, key: str) -> Any:
    """Return the JSON of a page, None if there is none."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            response = await client.get(url, headers={"Authorization": f"Bearer {key}"})
        return response.json() if response.status_code == 200 else None
    except Exception as error:
        _log.info("context size cannot be read from the server", url=url, error=type(error).__name__)
        return None


def _find_entry(models: Any, model: str) -> Any:
    """Return the entry of the model, or the only one; None if there is no such entry."""
    entries = models.get("data") if isinstance(models, Mapping) else None
    if not isinstance(entries, list):
        return None
    named = [entry for entry in entries if isinstance(entry, Mapping) and entry.get("id") == model]
    return next(iter(named), entries[0] if len(entries) == 1 else None)


def _get_field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _list_sizes(value: Any, names: tuple[str, ...]) -> Iterator[int]:
    """Yield the fields of an object that can be a size."""
    for name in names:
        size = _get_field(value, name)
        if isinstance(size, int) and not isinstance(size, bool) and size > 0:
            yield size
