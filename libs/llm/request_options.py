"""Calls a model with options that some servers do not accept, or without them where a server refuses them."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Literal

from cachetools import TTLCache

from chassis.logging import get_logger
from libs.llm.chat import ChatModel
from libs.llm.failures import names_rejected_parameter

REFUSAL_SECONDS = 3600.0
"""The time for which a refusal is remembered: a server may get another model under the same name."""

Option = Literal["temperature", "max_completion_tokens"]
OPTIONS: tuple[Option, ...] = ("temperature", "max_completion_tokens")

_refusals: MutableMapping[tuple[str, Option], bool] = TTLCache(maxsize=1024, ttl=REFUSAL_SECONDS)

_log = get_logger(__name__)


class OptionalChatModel:
    """A chat model that asks again without an option that the server refuses, and remembers that for an hour.

    A server that does not know `max_completion_tokens` gets the older `max_tokens`. `create` returns the provider's
    model for the given options; `identity` names model and server.
    """

    def __init__(
        self,
        create: Callable[..., ChatModel],
        identity: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
        refusals: MutableMapping[tuple[str, Option], bool] = _refusals,
    ) -> None:
        self._create = create
        self._identity = identity
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._refusals = refusals
        self._models: dict[frozenset[Option], ChatModel] = {}
        self._get_model(frozenset())  # finds a missing library at the start

    async def ainvoke(self, messages: Any, /, **options: Any) -> Any:
        """Return the model's reply."""
        while True:
            refused = self._find_refused_options()
            try:
                return await self._get_model(refused).ainvoke(messages, **self._adapt(options, refused))
            except Exception as error:
                self._remember_refusal(error, refused)

    def invoke(self, messages: Any, /, **options: Any) -> Any:
        """Return the model's reply, blocking."""
        while True:
            refused = self._find_refused_options()
            try:
                return self._get_model(refused).invoke(messages, **self._adapt(options, refused))
            except Exception as error:
                self._remember_refusal(error, refused)

    def _find_refused_options(self) -> frozenset[Option]:
        return frozenset(option for option in OPTIONS if (self._identity, option) in self._refusals)

    def _get_model(self, refused: frozenset[Option]) -> ChatModel:
        if refused not in self._models:
            chosen: dict[str, Any] = {}
            if self._temperature is not None and "temperature" not in refused:
                chosen["temperature"] = self._temperature
            if self._max_tokens is not None and "max_completion_tokens" not in refused:
                chosen["max_tokens"] = self._max_tokens
            self._models[refused] = self._create(**chosen)
        return self._models[refused]

    def _adapt(self, options: dict[str, Any], refused: frozenset[Option]) -> dict[str, Any]:
        """Return the options of a call, with `max_tokens` in the body where the server wants that name."""
        if self._max_tokens is None or "max_completion_tokens" not in refused:
            return options
        return {**options, "extra_body": {**options.get("extra_body", {}), "max_tokens": self._max_tokens}}

    def _remember_refusal(self, error: Exception, refused: frozenset[Option]) -> None:
        """Remember the option that the server refuses. Raise `error` again if it names no option."""
        values = {"temperature": self._temperature, "max_completion_tokens": self._max_tokens}
        for option in OPTIONS:
            if option not in refused and values[option] is not None and names_rejected_parameter(option, error):
                self._refusals[self._identity, option] = True
                _log.info("server refuses an option; calling without it", option=option, model=self._identity)
                return
        raise error
