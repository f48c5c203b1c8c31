"""Calls a model with a temperature, or without one where the model takes none."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from functools import cached_property
from typing import Any

from cachetools import TTLCache

from chassis.logging import get_logger
from libs.llm.chat import ChatModel
from libs.llm.failures import is_refusal_of

REFUSAL_SECONDS = 3600.0
"""The time for which a refusal is remembered: a server may get another model under the same name."""

_refusals: MutableMapping[str, bool] = TTLCache(maxsize=1024, ttl=REFUSAL_SECONDS)

_log = get_logger(__name__)


class TemperatureChatModel:
    """A chat model that asks again without the temperature if the model refuses it, and remembers that for an hour.

    `create` returns the provider's model for the given options; `identity` names model and server.
    """

    def __init__(
        self,
        create: Callable[..., ChatModel],
        temperature: float,
        identity: str,
        refusals: MutableMapping[str, bool] = _refusals,
    ) -> None:
        self._create = create
        self._with_temperature = create(temperature=temperature)
        self._identity = identity
        self._refusals = refusals

    @cached_property
    def _without_temperature(self) -> ChatModel:
        return self._create()

    async def ainvoke(self, messages: Any, /, **options: Any) -> Any:
        """Return the model's reply."""
        if self._identity not in self._refusals:
            try:
                return await self._with_temperature.ainvoke(messages, **options)
            except Exception as error:
                self._remember_refusal(error)
        return await self._without_temperature.ainvoke(messages, **options)

    def invoke(self, messages: Any, /, **options: Any) -> Any:
        """Return the model's reply, blocking."""
        if self._identity not in self._refusals:
            try:
                return self._with_temperature.invoke(messages, **options)
            except Exception as error:
                self._remember_refusal(error)
        return self._without_temperature.invoke(messages, **options)

    def _remember_refusal(self, error: Exception) -> None:
        """Remember that the model takes no temperature. Raise `error` again if it says something else."""
        if not is_refusal_of("temperature", error):
            raise error
        self._refusals[self._identity] = True
        _log.info("model takes no temperature; calling it without one", model=self._identity)
