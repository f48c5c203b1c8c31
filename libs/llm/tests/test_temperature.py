from __future__ import annotations

from typing import Any

from cachetools import TTLCache

from libs.llm.temperature import TemperatureChatModel


class BadRequest(Exception):
    status_code = 400


class ReasoningModel:
    """A model that refuses a temperature; `requests` collects what it was asked with."""

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
    refusals: TTLCache[str, bool] = TTLCache(maxsize=8, ttl=60, timer=lambda: times[0])
    requests: list[str] = []
    model = TemperatureChatModel(lambda **options: ReasoningModel(requests, **options), 0.0, "openai:m", refusals)
    for seconds in (0.0, 59.0, 61.0):
        times[0] = seconds
        assert await model.ainvoke([]) == model.invoke([]) == "reply"
    assert requests == ["with", "without", "without", "without", "without", "with", "without", "without"]
