from __future__ import annotations

from typing import Any

from cachetools import TTLCache

from libs.llm.request_options import OptionalChatModel


class BadRequest(Exception):
    status_code = 400


class ReasoningModel:
    """A model that refuses a temperature; `requests` collects the options of its calls."""

    def __init__(self, requests: list[str], **options: Any) -> None:
        self.requests = requests
        self.options = options

    def invoke(self, messages: Any, /, **options: Any) -> str:
        self.requests.append("with" if self.options else "without")
        if self.options:
            raise BadRequest("'temperature' is not supported")
        return "reply"

    async def ainvoke(self, messages: Any, /, **options: Any) -> str:
        return self.invoke(messages, **options)


async def test_a_refusal_is_remembered_for_a_limited_time() -> None:
    times = [0.0]
    refusals: TTLCache[Any, bool] = TTLCache(maxsize=8, ttl=60, timer=lambda: times[0])
    requests: list[str] = []
    model = OptionalChatModel(
        lambda **options: ReasoningModel(requests, **options), "openai:m", temperature=0.0, refusals=refusals
    )
    for seconds in (0.0, 59.0, 61.0):
        times[0] = seconds
        assert await model.ainvoke([]) == model.invoke([]) == "reply"
    assert requests == ["with", "without", "without", "without", "without", "with", "without", "without"]


class OldServer:
    """A server that knows `max_tokens` only; `requests` collects the constructor's options and the body's."""

    def __init__(self, requests: list[tuple[Any, Any]], **options: Any) -> None:
        self.requests = requests
        self.options = options

    def invoke(self, messages: Any, /, **options: Any) -> str:
        self.requests.append((self.options, options))
        if "max_tokens" in self.options:
            raise BadRequest("Unrecognized request argument supplied: max_completion_tokens")
        return "reply"

    async def ainvoke(self, messages: Any, /, **options: Any) -> str:
        return self.invoke(messages, **options)


async def test_a_server_that_does_not_know_the_newer_limit_gets_the_older_one() -> None:
    requests: list[tuple[Any, Any]] = []
    model = OptionalChatModel(
        lambda **options: OldServer(requests, **options), "openai:m", temperature=0.0, max_tokens=9, refusals={}
    )
    assert await model.ainvoke([], extra_body={"x": 1}) == await model.ainvoke([]) == "reply"
    assert requests == [
        ({"temperature": 0.0, "max_tokens": 9}, {"extra_body": {"x": 1}}),
        ({"temperature": 0.0}, {"extra_body": {"x": 1, "max_tokens": 9}}),
        ({"temperature": 0.0}, {"extra_body": {"max_tokens": 9}}),
    ]
