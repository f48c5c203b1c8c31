"""LLMClient, through which agents call a chat model; failures are logged and raised (G-04 to G-07)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from copy import copy
from typing import Any, Literal, TypeVar

from cachetools import TTLCache
from pydantic import BaseModel

from chassis.logging import get_logger
from libs.llm.chat import ChatModel, Close, Messages, OfflineChatModel, close_nothing
from libs.llm.errors import (
    PromptTooLong,
    ReplyNotStructured,
    ReplyRefused,
    ReplyTruncated,
    ResponseFormatRefused,
)
from libs.llm.finish import read_finish
from libs.llm.replies import read_text
from libs.llm.request_options import REFUSAL_SECONDS
from libs.llm.structured_output import (
    FORMS,
    Form,
    build_correction,
    build_instruction,
    build_response_format,
    parse_complete_parts,
    parse_structured,
)
from libs.prompts.templates import fill

S = TypeVar("S", bound=BaseModel)

ReadContextTokens = Callable[[], Awaitable[int | None]]


async def read_no_context_tokens() -> int | None:
    """Return None: the server does not state the size of its context."""
    return None


_log = get_logger(__name__)


class LLMClient:
    """Calls one chat model. It does not retry: a ReliableChatModel underneath does."""

    def __init__(
        self,
        chat_model: ChatModel,
        close: Close = close_nothing,
        read_context_tokens: ReadContextTokens = read_no_context_tokens,
    ) -> None:
        self._chat_model = chat_model
        self._close = close
        self._takes_schema = bool(getattr(chat_model, "takes_schema", False))
        self._refused_forms: MutableMapping[Form, bool] = TTLCache(len(FORMS), REFUSAL_SECONDS)
        self._context_tokens: int | None = getattr(chat_model, "context_tokens", None)
        self._read_context_tokens = read_context_tokens
        self._stated: MutableMapping[Literal["tokens"], int | None] = TTLCache(1, REFUSAL_SECONDS)

    @property
    def is_offline(self) -> bool:
        """Return whether there is no model; the service then uses its rule-based agents."""
        return isinstance(self._chat_model, OfflineChatModel)

    async def find_context_tokens(self) -> int | None:
        """Return the size of the model's context, None if it is unknown.

        It comes from the setting, from an error, or from the server, which is asked once an hour.
        """
        if self._context_tokens is not None:
            return self._context_tokens
        if "tokens" not in self._stated:
            self._stated["tokens"] = await self._read_context_tokens()
        return self._stated.get("tokens")

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        await self._close()

    def invoke(self, messages: Messages) -> Any:
        """Return the model's reply to `messages`, its text in `.content`; blocking."""
        with _log_failure():
            return _flatten_content(self._chat_model.invoke(messages))

    async def ainvoke(self, messages: Messages) -> Any:
        """Return the model's reply to `messages`, its text in `.content`."""
        with _log_failure():
            return await self._call_model(messages)

    def invoke_with_template(self, template: str, variables: Mapping[str, str]) -> str:
        """Return the reply text to `template`, filled in one pass (G-06); blocking. Raise TemplateError."""
        with _log_failure():
            return read_text(self._chat_model.invoke([("human", fill(template, variables))]))

    async def ainvoke_structured(
        self,
        messages: Messages,
        shape: type[S],
        *,
        describe_schema: bool = True,
        corrections: int = 1,
        parse: Callable[[str, type[S]], S] = parse_structured,
        report_truncation: Callable[[str], None] = lambda problem: None,
    ) -> S:
        """Return the reply, validated as a `shape`.

        The backend enforces the JSON schema where it can; otherwise, with `describe_schema`, a message with the schema
        is added. A reply that `parse` cannot use is sent back with its errors up to `corrections` times. Of a reply
        that was cut at its limit the complete parts are returned, and `report_truncation` is called. Raise
        ReplyNotStructured, ReplyTruncated, ReplyRefused.
        """
        with _log_failure():
            conversation = list(messages)
            while True:
                reply = await self._ask_structured(conversation, shape, describe_schema)
                text, finish = read_text(reply), read_finish(reply)
                if finish.refusal:
                    raise ReplyRefused(f"the model declined to reply: {finish.refusal}")
                try:
                    return parse(text, shape)
                except ReplyNotStructured as error:
                    problem = error
                if finish.is_truncated:
                    problem = ReplyTruncated(f"the reply was cut off at the token limit ({finish.reason}): {problem}")
                    parts = parse_complete_parts(text, shape, parse)
                    if parts is not None:
                        _log.warning("reply was cut off at the token limit; keeping its complete parts")
                        report_truncation("the reply was cut off at the token limit; its complete parts were used")
                        return parts
                if corrections <= 0:
                    raise problem
                corrections -= 1
                conversation += [("ai", text), ("human", build_correction(problem))]

    async def _ask_structured(self, messages: Messages, shape: type[BaseModel], describe_schema: bool) -> Any:
        """Return the reply, with the schema enforced by the backend, or described in the prompt if it refuses that."""
        described = [*messages, ("human", build_instruction(shape))] if describe_schema else messages
        forms = [form for form in FORMS if self._takes_schema and form not in self._refused_forms]
        for form in forms:
            conversation = messages if form == "json_schema" else described
            try:
                return await self._call_model(conversation, extra_body=build_response_format(shape, form))
            except ResponseFormatRefused as error:
                self._refused_forms[form] = True
                _log.warning("backend rejects a response format; using the next one", format=form, error=str(error))
        return await self._call_model(described)

    async def _call_model(self, messages: Messages, **options: Any) -> Any:
        try:
            return _flatten_content(await self._chat_model.ainvoke(messages, **options))
        except PromptTooLong as error:
            self._context_tokens = error.context_tokens or self._context_tokens
            raise


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
