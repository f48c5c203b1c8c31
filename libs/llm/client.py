"""LLMClient: what agents hold. One call is one call; a failure is logged and raised (G-04 to G-07)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar

from pydantic import BaseModel

from chassis.logging import get_logger
from libs.llm.chat import ChatModel, Close, Messages, OfflineChatModel, nothing_to_close
from libs.llm.errors import ModelRefusedCall, ReplyNotStructured
from libs.llm.replies import text_of
from libs.llm.structured import correction, held_to, instruction, parsed
from libs.prompts.templates import fill

S = TypeVar("S", bound=BaseModel)

_log = get_logger(__name__)


class LLMClient:
    """Calls one chat model. It does not retry: a ReliableChatModel underneath does."""

    def __init__(self, chat_model: ChatModel, close: Close = nothing_to_close) -> None:
        self._chat_model = chat_model
        self._close = close
        self._takes_schema = bool(getattr(chat_model, "takes_schema", False))

    @property
    def is_offline(self) -> bool:
        """Whether there is no model, so that a service is to be composed of its rule-based agents."""
        return isinstance(self._chat_model, OfflineChatModel)

    async def aclose(self) -> None:
        """Closes the connections to the provider."""
        await self._close()

    def invoke(self, messages: Messages) -> Any:
        """The model's reply to `messages`, its text in `.content`; blocking."""
        with _logged():
            return _with_text(self._chat_model.invoke(messages))

    async def ainvoke(self, messages: Messages, *, timeout_seconds: float | None = None) -> Any:
        """The model's reply to `messages`, its text in `.content`."""
        with _logged():
            return await self._reply(messages, timeout_seconds)

    def invoke_with_template(self, template: str, variables: Mapping[str, str]) -> str:
        """The text answered to `template`, filled in one pass (G-06); blocking. Errors also: TemplateError."""
        with _logged():
            return text_of(self._chat_model.invoke([("human", fill(template, variables))]))

    async def ainvoke_with_template(self, template: str, variables: Mapping[str, str]) -> str:
        """The text answered to `template`, filled in one pass (G-06). Errors also: TemplateError."""
        with _logged():
            return text_of(await self._reply([("human", fill(template, variables))], None))

    async def astructured(
        self,
        messages: Messages,
        shape: type[S],
        *,
        timeout_seconds: float | None = None,
        describe: bool = True,
        reasks: int = 1,
    ) -> S:
        """The reply as a `shape`, a pydantic model that has checked it.

        The backend is held to the JSON schema where it can be; where it cannot and `describe` is set, a message with
        the schema is added. A reply that does not fit is answered with what is wrong, `reasks` times.
        Errors also: ReplyNotStructured.
        """
        with _logged():
            conversation = list(messages)
            while True:
                text = text_of(await self._shaped(conversation, shape, timeout_seconds, describe))
                try:
                    return parsed(text, shape)
                except ReplyNotStructured as error:
                    if reasks <= 0:
                        raise
                    reasks -= 1
                    conversation += [("ai", text), ("human", correction(error))]

    async def _shaped(
        self, messages: Messages, shape: type[BaseModel], timeout_seconds: float | None, describe: bool
    ) -> Any:
        """The reply, constrained to `shape` by the backend, or asked for in words where the backend refuses that."""
        if self._takes_schema:
            try:
                return await self._reply(messages, timeout_seconds, extra_body=held_to(shape))
            except ModelRefusedCall as error:
                if "response_format" not in str(error) and "json_schema" not in str(error):
                    raise
                _log.warning("backend takes no JSON schema; the prompt describes it from now on", error=str(error))
                self._takes_schema = False
        asked = [*messages, ("human", instruction(shape))] if describe else messages
        return await self._reply(asked, timeout_seconds)

    async def _reply(self, messages: Messages, timeout_seconds: float | None, **options: Any) -> Any:
        if timeout_seconds is not None:
            options["timeout_seconds"] = timeout_seconds
        return _with_text(await self._chat_model.ainvoke(messages, **options))


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except Exception:
        _log.exception("chat model call failed")  # G-05
        raise


def _with_text(message: Any) -> Any:
    """`message` with its content as text (G-07); the same object when it is text already."""
    text = text_of(message)
    if message.content == text:
        return message
    readable = copy(message)
    readable.content = text
    return readable
