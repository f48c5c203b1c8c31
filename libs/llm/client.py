"""LLMClient, through which agents call a chat model; failures are logged and raised (G-04 to G-07)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar

from pydantic import BaseModel

from chassis.logging import get_logger
from libs.llm.chat import ChatModel, Close, Messages, OfflineChatModel, close_nothing
from libs.llm.errors import ModelRefusedCall, ReplyNotStructured
from libs.llm.replies import read_text
from libs.llm.structured_output import build_correction, build_instruction, build_response_format, parse_structured
from libs.prompts.templates import fill

S = TypeVar("S", bound=BaseModel)

_log = get_logger(__name__)


class LLMClient:
    """Calls one chat model. It does not retry: a ReliableChatModel underneath does."""

    def __init__(self, chat_model: ChatModel, close: Close = close_nothing) -> None:
        self._chat_model = chat_model
        self._close = close
        self._takes_schema = bool(getattr(chat_model, "takes_schema", False))

    @property
    def is_offline(self) -> bool:
        """Return whether there is no model; the service then uses its rule-based agents."""
        return isinstance(self._chat_model, OfflineChatModel)

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        await self._close()

    def invoke(self, messages: Messages) -> Any:
        """Return the model's reply to `messages`, its text in `.content`; blocking."""
        with _log_failure():
            return _flatten_content(self._chat_model.invoke(messages))

    async def ainvoke(self, messages: Messages, *, timeout_seconds: float | None = None) -> Any:
        """Return the model's reply to `messages`, its text in `.content`."""
        with _log_failure():
            return await self._reply(messages, timeout_seconds)

    def invoke_with_template(self, template: str, variables: Mapping[str, str]) -> str:
        """Return the reply text to `template`, filled in one pass (G-06); blocking. Raise TemplateError."""
        with _log_failure():
            return read_text(self._chat_model.invoke([("human", fill(template, variables))]))

    async def ainvoke_with_template(self, template: str, variables: Mapping[str, str]) -> str:
        """Return the reply text to `template`, filled in one pass (G-06). Raise TemplateError."""
        with _log_failure():
            return read_text(await self._reply([("human", fill(template, variables))], None))

    async def ainvoke_structured(
        self,
        messages: Messages,
        shape: type[S],
        *,
        timeout_seconds: float | None = None,
        describe_schema: bool = True,
        corrections: int = 1,
        parse: Callable[[str, type[S]], S] = parse_structured,
    ) -> S:
        """Return the reply, validated as a `shape`.

        The backend enforces the JSON schema where it can; otherwise, with `describe_schema`, a message with the schema
        is added. A reply that `parse` cannot use is sent back with its errors up to `corrections` times. Raise
        ReplyNotStructured.
        """
        with _log_failure():
            conversation = list(messages)
            while True:
                text = read_text(await self._ask_structured(conversation, shape, timeout_seconds, describe_schema))
                try:
                    return parse(text, shape)
                except ReplyNotStructured as error:
                    if corrections <= 0:
                        raise
                    corrections -= 1
                    conversation += [("ai", text), ("human", build_correction(error))]

    async def _ask_structured(
        self, messages: Messages, shape: type[BaseModel], timeout_seconds: float | None, describe_schema: bool
    ) -> Any:
        """Return the reply, with the schema enforced by the backend, or described in the prompt if it refuses that."""
        if self._takes_schema:
            try:
                return await self._reply(messages, timeout_seconds, extra_body=build_response_format(shape))
            except ModelRefusedCall as error:
                if "response_format" not in str(error) and "json_schema" not in str(error):
                    raise
                _log.warning("backend rejects JSON schemas; using prompts from now on", error=str(error))
                self._takes_schema = False
        conversation = [*messages, ("human", build_instruction(shape))] if describe_schema else messages
        return await self._reply(conversation, timeout_seconds)

    async def _reply(self, messages: Messages, timeout_seconds: float | None, **options: Any) -> Any:
        if timeout_seconds is not None:
            options["timeout_seconds"] = timeout_seconds
        return _flatten_content(await self._chat_model.ainvoke(messages, **options))


@contextmanager
def _log_failure() -> Iterator[None]:
    try:
        yield
    except Exception:
        _log.exception("chat model call failed")  # G-05
        raise


def _flatten_content(message: Any) -> Any:
    """Return `message` with its content as text (G-07); the same object when it is text already."""
    text = read_text(message)
    if message.content == text:
        return message
    readable = copy(message)
    readable.content = text
    return readable
